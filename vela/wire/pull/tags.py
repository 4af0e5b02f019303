"""Tag expressions: which messages of a topic a pull asks for, by their tag. A message has at most one tag."""

from __future__ import annotations

from typing import Final, TypeAlias

from vela.wire.errors import InvalidPull

__all__ = ["TAG_PROPERTY", "Tags", "parse_tags"]

TAG_PROPERTY: Final = "TAGS"  # the message property with the tag, as in RocketMQ

Tags: TypeAlias = frozenset[str] | None
"""The tags asked for; None = every message, tagged or not."""


def parse_tags(expression: str) -> Tags:
    """Read `*` or nothing as every message, and `A || B` as either tag. Raises InvalidPull for an empty alternative."""
    text = expression.strip()
    if text in ("", "*"):
        return None
    tags = [tag.strip() for tag in text.split("||")]
    if not all(tags):
        raise InvalidPull(f"tags is {expression!r}: write *, one tag, or tags with || between them")
    return frozenset(tags)
