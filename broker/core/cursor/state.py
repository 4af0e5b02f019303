"""Values that a cursor returns, stores and restores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.position import EARLIEST, LATEST, Position


class AckResult(NamedTuple):
    """The effect of one ack."""

    messages: int  # Newly acked
    completed: bool  # This ack made the entry wholly acked


class Totals(NamedTuple):
    """Counts of acks. The totals of a cursor include trimmed messages."""

    messages: int
    entries: int
    size_bytes: int  # Bytes of wholly acked entries


class SkipTarget(NamedTuple):
    """The place where a skip would end."""

    mark_delete: Position
    remaining: int | None  # Unacked members of the entry after `mark_delete`, if the skip ends inside a batch
    messages: int  # Unacked messages that the skip passes
    entries: int  # Entries that the skip passes and that are not wholly acked


@dataclass(frozen=True, slots=True, kw_only=True)
class AckChunk:
    """Acks beyond mark-delete in one run of 32,768 entries."""

    ledger_id: int
    chunk: int  # Entry id divided by 32,768
    # Entry i of the chunk is bit i & 7 of byte i >> 3. A 1 means wholly acked. Trailing zero bytes are cut off.
    bits: bytes
    ack_sets: Mapping[int, int] = field(default_factory=dict)  # Maps entry ids to unacked members


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
    """Acks that arrive after an operator's act, for messages that the act passed."""

    # Mark-delete right after the act
    mark_delete: Position = LATEST
    through: Position = EARLIEST  # Highest cumulative ack at or below `mark_delete`
    chunks: tuple[AckChunk, ...] = ()
    # Entries that the act acked beyond mark-delete. Ack sets have the members that the act left unacked.
    passed: tuple[AckChunk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorFlush:
    """The changes of a cursor since its last flush. Keys are (ledger_id, chunk)."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    version: int
    bitmaps: Mapping[tuple[int, int], bytes]  # Whole bitmaps of changed chunks
    ack_sets: Mapping[tuple[int, int], Mapping[int, int]]  # All ack sets of changed chunks
    dropped: tuple[tuple[int, int], ...]
    overlay: AckOverlay | None = None
