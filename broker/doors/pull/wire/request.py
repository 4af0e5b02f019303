"""Parse the paths below `/pull/` and their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.query import Query, form_decode, parse_query
from vela.wire.errors import InvalidPull
from vela.wire.pull.property_filter import PropertyFilter, parse_property_filter
from vela.wire.pull.tags import Tags, parse_tags

__all__ = ["OffsetRequest", "PullRequest", "parse_offset_request", "parse_pull_request", "parse_pull_topic"]

DEFAULT_MESSAGES: Final = 32
MAX_MESSAGES: Final = 1024
DEFAULT_SUSPEND_MS: Final = 15_000
MAX_SUSPEND_MS: Final = 600_000
MAX_OFFSET: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """The parameters of a pull."""

    topic: str  # Full name
    queue: int  # The partition, or 0 if the topic has no partitions
    offset: int
    max_messages: int
    tags: Tags  # If None, the tag does not matter
    property_filter: PropertyFilter | None  # If None, the properties do not matter
    may_suspend: bool
    suspend_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRequest:
    """A request to read or commit a consumer group's offset."""

    topic: str
    queue: int
    subscription: str
    offset: int | None  # The offset to commit, or None to read the offset


def parse_pull_topic(raw_path: str, prefix: str) -> str:
    """Return the full name of the topic in a path. Raises InvalidPull."""
    pieces = raw_path.removeprefix(prefix).split("/")
    if len(pieces) != 3 or not all(pieces):
        raise InvalidPull(
            f"the path is {prefix}{{tenant}}/{{namespace}}/{{topic}}; name a partition with the parameter queue"
        )
    try:
        tenant, namespace, topic = (form_decode(piece, "the path") for piece in pieces)
    except HandshakeRefused as error:
        raise InvalidPull(error.reason) from None
    return f"persistent://{tenant}/{namespace}/{topic}"


def parse_pull_request(topic: str, query_string: str | bytes) -> PullRequest:
    """Parse and check the query of a pull. Raises InvalidPull."""
    query = _query(query_string)
    if "commit_offset" in query:
        raise InvalidPull("a pull does not commit: commit with PUT /pull/v1-offset/…")
    _known(query, _PULL_PARAMETERS)
    filter_text = query.get("filter", "")
    return PullRequest(
        topic=topic,
        queue=_number(query, "queue", 0, least=0, most=2**31 - 1),
        offset=_number(query, "offset", None, least=0, most=MAX_OFFSET),
        max_messages=_number(query, "max_messages", DEFAULT_MESSAGES, least=1, most=MAX_MESSAGES),
        tags=parse_tags(query.get("tags", "")),
        property_filter=parse_property_filter(filter_text) if filter_text.strip() else None,
        may_suspend=_flag(query, "suspend"),
        suspend_timeout_ms=_number(
            query, "suspend_timeout_ms", DEFAULT_SUSPEND_MS, least=1, most=MAX_SUSPEND_MS
        ),
    )


def parse_offset_request(topic: str, query_string: str | bytes, *, is_commit: bool) -> OffsetRequest:
    """Parse and check the query of an offset request. Raises InvalidPull."""
    query = _query(query_string)
    _known(query, _COMMIT_PARAMETERS if is_commit else _OFFSET_PARAMETERS)
    subscription = query.get("subscription")
    if not subscription:
        raise InvalidPull("subscription is missing: name the consumer group")
    return OffsetRequest(
        topic=topic,
        queue=_number(query, "queue", 0, least=0, most=2**31 - 1),
        subscription=subscription,
        offset=_number(query, "offset", None, least=0, most=MAX_OFFSET) if is_commit else None,
    )


_OFFSET_PARAMETERS: Final = frozenset({"queue", "subscription"})
_COMMIT_PARAMETERS: Final = _OFFSET_PARAMETERS | {"offset"}
_PULL_PARAMETERS: Final = frozenset(
    {"filter", "max_messages", "offset", "queue", "suspend", "suspend_timeout_ms", "tags"}
)


def _query(query_string: str | bytes) -> Query:
    try:
        return parse_query(query_string)
    except HandshakeRefused as error:
        raise InvalidPull(error.reason) from None


def _known(query: Query, names: frozenset[str]) -> None:
    for name in query:
        if name not in names:
            raise InvalidPull(f"unknown parameter {name!r}: the request takes {', '.join(sorted(names))}")


def _number(query: Query, name: str, default: int | None, *, least: int, most: int) -> int:
    raw = query.get(name)
    if raw is None:
        if default is None:
            raise InvalidPull(f"{name} is missing: it takes a whole number of at least {least}")
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) < 20) or not least <= int(raw) <= most:
        raise InvalidPull(f"{name} is {raw!r}: it takes a whole number from {least} to {most}")
    return int(raw)


def _flag(query: Query, name: str) -> bool:
    raw = query.get(name, "false").lower()
    if raw in ("true", "1"):
        return True
    if raw in ("false", "0"):
        return False
    raise InvalidPull(f"{name} is {raw!r}: it takes true or false")
