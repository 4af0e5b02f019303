"""What of a cursor is stored, flushed and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.position import EARLIEST, LATEST, Position


class AckResult(NamedTuple):
    """Effect of one ack."""

    messages: int  # newly acked
    completed: bool  # the named entry was unacked before and is wholly acked now


class Totals(NamedTuple):
    """Acked since the topic began; everything at or before mark-delete counts."""

    messages: int
    entries: int  # counted as LedgerMap.total_entries
    size_bytes: int  # of wholly acked entries


class SkipTarget(NamedTuple):
    """Where a cursor would go: `mark_delete`, and what stays unacked of the entry after it."""

    mark_delete: Position
    remaining: int | None  # ack set of the entry after mark_delete, None when the target is between entries
    messages: int  # unacked messages passed on the way
    entries: int  # entries passed that were not wholly acked


@dataclass(frozen=True, slots=True, kw_only=True)
class AckChunk:
    """Acks beyond mark-delete in one run of 32,768 entries."""

    ledger_id: int
    chunk: int  # entry_id >> 15
    bits: bytes  # entry i of the chunk is bit i & 7 of byte i >> 3; 1 = wholly acked; trailing zero bytes cut
    ack_sets: Mapping[int, int] = field(default_factory=dict)  # entry_id -> unacked members


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """A cursor at one moment; what is stored and what an undo needs."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    chunks: tuple[AckChunk, ...] = ()
    version: int = 0  # acts that moved the cursor; acks do not count


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOverlay:
    """Acks of messages that an act had already passed, kept while it can be undone (design 9)."""

    mark_delete: Position = LATEST  # right after the act: acks beyond it say nothing of what it passed
    through: Position = EARLIEST  # highest cumulative ack at or below the act's mark-delete
    chunks: tuple[AckChunk, ...] = ()
    passed: tuple[
        AckChunk, ...
    ] = ()  # what the act acked beyond mark-delete, and of parts of batches what it left


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorFlush:
    """What changed since the last flush. Keys are (ledger_id, chunk)."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    version: int
    bitmaps: Mapping[tuple[int, int], bytes]  # whole bitmaps of the chunks whose bits changed
    ack_sets: Mapping[tuple[int, int], Mapping[int, int]]  # whole ack sets of the chunks where they changed
    dropped: tuple[tuple[int, int], ...]  # chunks that are gone
    overlay: AckOverlay | None = None  # the whole of it, when it changed
