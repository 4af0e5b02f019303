"""Find the topics that match a pattern, and how they have changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from vela.core.topic_name import base_name, full_name
from vela.errors import InvalidTopicName
from vela.wire.errors import InvalidTopicName as NotANamespace
from vela.wire.topic_name import parse_namespace

__all__ = ["TopicChanges", "TopicPattern"]

_ESCAPED: Final = re.compile(r"\\([-.])")
"""The characters of tenants and namespaces that `re.escape` escapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanges:
    """New and deleted topics: full names, without partitions."""

    added: frozenset[str]
    removed: frozenset[str]


class TopicPattern:
    """A regular expression that must match the whole local name of a topic in one namespace. The domain is ignored.

    Examples: "orders-.*", "tenant/namespace/orders-.*" and "persistent://tenant/namespace/orders-.*". Tenant and
    namespace are names, not patterns: a dot there is a dot, and may be written with a backslash.
    """

    def __init__(self, pattern: str | re.Pattern[str]) -> None:
        """Read a pattern. Raises InvalidTopicName if it is not one."""
        text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        flags = pattern.flags & ~re.UNICODE if isinstance(pattern, re.Pattern) else 0
        rest = text.partition("://")[2] or text
        parts = rest.split("/", 2)
        if len(parts) == 1:
            parts = ["public", "default", rest]
        namespace = _ESCAPED.sub(r"\1", "/".join(parts[:2]))
        if len(parts) != 3 or not parts[2] or not _is_namespace(namespace):
            raise InvalidTopicName(
                f"{text!r} is not a pattern of topics: write name, or tenant/namespace/name, with a regular expression"
                " for the name alone"
            )
        self.namespace = namespace
        """ "tenant/namespace"."""
        try:
            self._names = re.compile(parts[2], flags)
        except re.error as error:
            raise InvalidTopicName(f"{text!r} is not a regular expression: {error}") from None

    def matching(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the topics that match. A partition counts as its topic."""
        whole = {base_name(full_name(topic)) for topic in topics}
        return frozenset(topic for topic in whole if self._names.fullmatch(topic.split("/", 4)[4]))

    def changes(self, known: Iterable[str], topics: Iterable[str]) -> TopicChanges:
        """Return the difference between the known topics and those in the namespace now."""
        now, before = self.matching(topics), frozenset(known)
        return TopicChanges(added=now - before, removed=before - now)


def _is_namespace(text: str) -> bool:
    try:
        parse_namespace(text)
    except NotANamespace:
        return False
    return True
