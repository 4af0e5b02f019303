"""Values that a cursor returns, stores and restores.

The members of an entry are the messages of its batch. A set of members is an int with one bit for each member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.position import EARLIEST, LATEST, Position


class AckResult(NamedTuple):
    """The effect of one ack."""

    messages: int  # Newly acked messages
    completed: bool  # Whether this ack made the entry wholly acked


class Totals(NamedTuple):
    """Totals of acked messages, entries and bytes. The totals of a cursor include trimmed messages."""

    messages: int
    entries: int
    size_bytes: int  # Bytes of wholly acked entries


class SkipTarget(NamedTuple):
    """The place where a skip would end."""

    mark_delete: Position
    # Unacked members of the entry after `mark_delete`, if the skip ends inside that entry
    remaining: int | None
    messages: int  # Unacked messages that the skip passes
    entries: int  # Entries that the skip passes, not counting wholly acked entries


@dataclass(frozen=True, slots=True, kw_only=True)
class AckChunk:
    """The acks of 32,768 consecutive entries."""

    ledger_id: int
    chunk: int  # Entry id divided by 32,768
    # One bit for each entry, lowest bit first. A 1 means wholly acked. Trailing zero bytes are cut off.
    bits: bytes
    ack_sets: Mapping[int, int] = field(default_factory=dict)  # Unacked members by entry id


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """The state of a cursor at one moment."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    chunks: tuple[AckChunk, ...] = ()
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOverlay:
    """Client acks of messages that an operator's act, such as a skip, had already acked. An undo keeps these acks."""

    mark_delete: Position = LATEST  # Mark-delete right after the act
    through: Position = EARLIEST  # Highest cumulative ack at or below `mark_delete`
    chunks: tuple[AckChunk, ...] = ()
    # Not client acks, but the act's own acks beyond `mark_delete`. An undo removes these acks.
    passed: tuple[AckChunk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorFlush:
    """The changes of a cursor since its last flush. Mapping keys are (ledger_id, chunk)."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    version: int
    bitmaps: Mapping[tuple[int, int], bytes]  # Whole bitmaps of changed chunks
    ack_sets: Mapping[tuple[int, int], Mapping[int, int]]  # All ack sets of changed chunks
    dropped: tuple[tuple[int, int], ...]
    overlay: AckOverlay | None = None
