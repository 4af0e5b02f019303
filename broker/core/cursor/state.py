"""Values that a cursor returns, stores and restores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.position import EARLIEST, LATEST, Position


class AckResult(NamedTuple):
    """The effect of one ack."""

    messages: int  # newly acked
    completed: bool  # the entry became wholly acked by this ack


class Totals(NamedTuple):
    """Counts of acks. Those of a cursor include everything at or before mark-delete since the topic began."""

    messages: int
    entries: int  # counted like LedgerMap.total_entries
    size_bytes: int  # of wholly acked entries


class SkipTarget(NamedTuple):
    """The place to which a cursor would move: `mark_delete`, and the unacked members of the entry after it."""

    mark_delete: Position
    remaining: int | None  # ack set of the entry after mark_delete, None when the target is between entries
    messages: int  # unacked messages passed on the way
    entries: int  # entries passed that were not wholly acked


@dataclass(frozen=True, slots=True, kw_only=True)
class AckChunk:
    """Acks beyond mark-delete in one run of 32,768 entries."""

    ledger_id: int
    chunk: int  # entry_id >> 15
    bits: bytes  # entry i of the chunk is bit i & 7 of byte i >> 3; 1 = wholly acked; no trailing zero bytes
    ack_sets: Mapping[int, int] = field(default_factory=dict)  # entry_id -> unacked members


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """A cursor at one moment, as it is stored and as an undo needs it."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    chunks: tuple[AckChunk, ...] = ()
    version: int = 0  # as `Cursor.version`


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOverlay:
    """Acks of messages that an act has passed, recorded while the act can be undone."""

    # Mark-delete right after the act. Cumulative acks beyond it do not cover the messages that the act passed.
    mark_delete: Position = LATEST
    through: Position = EARLIEST  # highest cumulative ack at or below the act's mark-delete
    chunks: tuple[AckChunk, ...] = ()
    # Entries that the act acked beyond mark-delete; an ack set has the members that the act left unacked.
    passed: tuple[AckChunk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorFlush:
    """The changes of a cursor since its last flush. Keys are (ledger_id, chunk)."""

    mark_delete: Position
    acked_messages: int
    acked_entries: int
    acked_bytes: int
    version: int
    bitmaps: Mapping[tuple[int, int], bytes]  # whole bitmaps of chunks with changed bits
    ack_sets: Mapping[tuple[int, int], Mapping[int, int]]  # all ack sets of chunks where one changed
    dropped: tuple[tuple[int, int], ...]  # chunks that were removed
    overlay: AckOverlay | None = None  # complete, if it changed
