"""The cursor of one subscription: mark-delete, the acks beyond mark-delete, and the totals of everything acked.

The members of an entry are the messages of its batch.
This file is long because it holds one state and every method that changes the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.cursor.ack_chunks import AckChunks
from broker.core.cursor.counting import (
    AckedSet,
    acked_after,
    acked_only_in,
    acked_only_in_simple,
    count_state,
    settle,
    unacked_target,
)
from broker.core.cursor.state import AckOverlay, AckResult, CursorFlush, CursorState, SkipTarget, Totals
from broker.core.cursor.undo import OverlayRecorder, merge_undo, passed_by_act
from broker.core.errors import InvalidAck
from broker.core.ledgers.ledger import LedgerMap
from broker.core.ledgers.message_index import CHUNK_MASK, IndexMissing, MessageIndex, Range, chunk_of
from broker.core.position import EARLIEST, LATEST, Position

_NOTHING = AckResult(0, False)
_ONE = AckResult(1, True)


class Cursor:
    """The cursor of one subscription. Every ack is safe to repeat.

    Methods raise IndexMissing if they need message counts that are not in memory. The cursor then stays unchanged.
    """

    def __init__(self, ledgers: LedgerMap, index: MessageIndex, state: CursorState) -> None:
        self._ledgers = ledgers
        self._index = index
        self._overlay: OverlayRecorder | None = None
        self._acked: AckChunks
        self._mark_delete: Position
        self._highest_acked: Position  # Valid only if beyond mark-delete
        self._messages: int
        self._entries: int
        self._bytes: int
        self._version: int
        self._load(state)
        self._dirty = False

    @classmethod
    def starting_at(
        cls, ledgers: LedgerMap, index: MessageIndex, position: Position, remaining: int | None = None
    ) -> Cursor:
        """Return a new cursor that reads `position` next."""
        start = CursorState(mark_delete=Position(-1, -1), acked_messages=0, acked_entries=0, acked_bytes=0)
        cursor = cls(ledgers, index, start)
        cursor.reset_to(position, remaining)
        cursor._version = 0
        return cursor

    @property
    def mark_delete(self) -> Position:
        """The position up to which everything is acked. The ledger of this position may have been trimmed."""
        return self._mark_delete

    @property
    def version(self) -> int:
        """A number that rises when something other than a client ack changes the cursor."""
        return self._version

    @property
    def last_acked(self) -> Position:
        """The position of the highest wholly acked entry."""
        return max(self._mark_delete, self._highest_acked)

    @property
    def has_individual_acks(self) -> bool:
        """Whether an entry beyond mark-delete is wholly acked."""
        return self._highest_acked > self._mark_delete

    @property
    def has_partial_acks(self) -> bool:
        return bool(self._acked.sets)

    @property
    def totals(self) -> Totals:
        return Totals(self._messages, self._entries, self._bytes)

    @property
    def backlog_messages(self) -> int:
        return self._ledgers.total_messages - self._messages

    @property
    def backlog_entries(self) -> int:
        return self._ledgers.total_entries - self._entries

    @property
    def backlog_bytes(self) -> int:
        return self._ledgers.total_bytes - self._bytes

    def is_acked(self, position: Position) -> bool:
        """Return whether the entry is wholly acked."""
        return position <= self._mark_delete or self._acked.has(*position)

    def remaining_of(self, position: Position) -> int | None:
        """Return the unacked members of an entry as bits, or None if no member is acked."""
        if self.is_acked(position):
            return 0
        return self._acked.remaining(*position)

    def read_from(self) -> Position:
        """Return the first entry that is not wholly acked, or the end of the log."""
        return self._ledgers.next_after(self._mark_delete)

    def acked_block(self, ledger_id: int, entry_id: int) -> int:
        """Return the bits of the block of 1,024 entries that contains this entry. A 1 means wholly acked.

        The bits of entries at or below mark-delete have no meaning.
        """
        return self._acked.block(ledger_id, entry_id)

    def next_unacked(self, position: Position) -> Position:
        """Starting at `position`, return the first entry that is not wholly acked, or the end of the log."""
        if position <= self._mark_delete:
            return self.read_from()
        at = self._ledgers.next_valid(position)
        if self._acked.bits:
            while (last := self._acked.run_end(*at)) >= at.entry_id:
                at = self._ledgers.next_after(Position(at.ledger_id, last))
        return at

    def acked_in(self, ledger_id: int, first: int, last: int) -> int:
        """Count the wholly acked entries from `first` to `last`. `first` must lie beyond mark-delete."""
        return self._acked.count_in(ledger_id, first, last)

    def individually_acked(self, limit: int = 1000) -> Iterator[Range]:
        """Yield runs of wholly acked entries beyond mark-delete, as (ledger_id, first, last).

        Pulsar calls these entries individually deleted.
        """
        for count, run in enumerate(self._acked.runs(self._mark_delete, LATEST)):
            if count >= limit:
                return
            yield run

    def partly_acked(self, limit: int = 1000) -> Iterator[tuple[int, int, int]]:
        """Yield partly acked entries, as (ledger_id, entry_id, unacked members)."""
        for count, partial in enumerate(self._acked.partials(self._mark_delete, LATEST)):
            if count >= limit:
                return
            yield partial

    def ack(self, position: Position, remaining: int | None = None) -> AckResult:
        """Ack one entry, or only the batch members whose bit in `remaining` is 0.

        Raises InvalidAck if the entry was never stored.
        """
        if position <= self._mark_delete:
            if self._overlay is not None:
                stored = self._ledgers.contains(position)
                self._overlay.ack(
                    position, remaining, stored if remaining is None else self._count_of(position)
                )
            return _NOTHING
        ledger_id, entry_id = position
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or not 0 <= entry_id < ledger.entries:
            return self._ack_unstored(position)
        if self._overlay is not None and self._overlay.has_passed(position):
            self._overlay.ack(position, remaining, self._count_of(position))
        acked = self._acked
        if acked.bits and position <= self._highest_acked and acked.has(ledger_id, entry_id):
            return _NOTHING
        counts = self._index.counts(ledger, entry_id)
        if counts is None:
            raise IndexMissing(self._index.unknown(position))
        messages, size_bytes = counts
        newly = messages
        if remaining is not None or acked.sets:
            before = acked.remaining(ledger_id, entry_id)
            if before is None:
                before = (1 << messages) - 1
            after = before & remaining if remaining is not None else 0
            newly = before.bit_count() - after.bit_count()
            if after:
                if newly:
                    acked.set_remaining(ledger_id, entry_id, after)
                    self._messages += newly
                    self._dirty = True
                return AckResult(newly, False)
        self._messages += newly
        self._entries += 1
        self._bytes += size_bytes
        self._dirty = True
        self._complete(position)
        return _ONE if newly == 1 else AckResult(newly, True)

    def ack_through(self, position: Position, remaining: int | None = None) -> AckResult:
        """Ack everything up to `position`.

        In the entry at `position`, the members in `remaining` stay unacked. Raises InvalidAck if the entry was never
        stored.
        """
        if position <= self._mark_delete:
            if self._overlay is not None:
                self._overlay.ack_through(position, remaining, self._count_of(position))
            return _NOTHING
        if not self._ledgers.contains(position):
            return self._ack_unstored(position)
        target = position
        if remaining is not None:
            messages = self._count_of(position)
            known = self._acked.remaining(*position)
            left = remaining & (known if known is not None else (1 << messages) - 1)
            if left and not self.is_acked(position):
                target = self._ledgers.previous_of(position)
        completed = target == position and not self.is_acked(position)
        before = self._messages
        if target > self._mark_delete:
            self._advance_to(target)
        if target != position:
            self.ack(position, remaining)
        return AckResult(self._messages - before, completed)

    def move_mark_delete(self, position: Position, remaining: int | None = None) -> AckResult:
        """Move mark-delete forward to `position`, but not beyond the last entry of the log.

        If `remaining` is given, also ack the next entry, except for the members in `remaining`.
        """
        target = self._ledgers.floor(position)
        inside = self._ledgers.next_after(target)
        if remaining is not None and self._ledgers.contains(inside):
            self._count_of(inside)
        before = self._messages
        if target > self._mark_delete:
            self._advance_to(target)
        if remaining is not None and inside > self._mark_delete and self._ledgers.contains(inside):
            self.ack(inside, remaining)
        if self._messages != before:
            self._version += 1
            self._dirty = True
        return AckResult(self._messages - before, False)

    def reset_to(self, position: Position, remaining: int | None = None) -> None:
        """Make `position` the next entry to read, and forget all acks at or after `position`.

        If `remaining` is given, ack the members of this entry, except for the members in `remaining`. If no entry is
        stored at `position`, the cursor ignores `remaining` and moves to the next stored entry or the end of the log.
        """
        target = self._ledgers.next_valid(position)
        mark_delete = self._ledgers.previous_of(target)
        through = self._index.through(mark_delete)
        if through is None:
            raise IndexMissing(self._index.unknown(mark_delete))
        left = None
        messages = 0
        if remaining is not None and target == position and self._ledgers.contains(target):
            messages = self._count_of(target)
            left = remaining & (1 << messages) - 1
        self._acked.clear()
        self._highest_acked = EARLIEST
        self._mark_delete = mark_delete
        self._messages, self._bytes = through
        self._entries = self._ledgers.entries_through(mark_delete)
        self._version += 1
        self._dirty = True
        if left is not None:
            self.ack(target, left)

    def skip_one(self, position: Position, remaining: int | None = None) -> AckResult:
        """Ack one entry on behalf of an operator."""
        result = self.ack(position, remaining)
        self._version += 1
        self._dirty = True
        return result

    def position_after_messages(self, messages: int) -> SkipTarget:
        """Return where a skip of this many unacked messages would end."""
        return unacked_target(self._ledgers, self._index, self._acked, self._mark_delete, messages=messages)

    def position_after_entries(self, entries: int) -> SkipTarget:
        """Return where a skip of this many entries would end. Wholly acked entries do not count."""
        return unacked_target(self._ledgers, self._index, self._acked, self._mark_delete, entries=entries)

    def shifted_position(self, messages: int) -> tuple[Position, int | None]:
        """Return the arguments that `reset_to` needs to move the cursor by a number of messages.

        A negative number moves the cursor back.
        """
        through = self._index.messages_through(self._mark_delete)
        if through is None:
            raise IndexMissing(self._index.unknown(self._mark_delete))
        if not messages:
            return self.read_from(), None
        wanted = through + messages
        for ledger in self._ledgers:
            if ledger.entries and ledger.messages_before + ledger.messages > wanted:
                if wanted <= ledger.messages_before:
                    return Position(ledger.ledger_id, 0), None
                entry = Position(ledger.ledger_id, self._index.entry_at(ledger, wanted))
                last = self._index.messages_through(entry)
                size = self._count_of(entry)
                passed = wanted - (last or 0) + size
                return entry, ((1 << size) - (1 << passed) if passed > 0 else None)
        return self._ledgers.end(), None

    def shift_room(self) -> tuple[int, int]:
        """Return how many messages the cursor can move back, and how many it can move forward."""
        through = self._index.messages_through(self._mark_delete)
        if through is None:
            raise IndexMissing(self._index.unknown(self._mark_delete))
        first = next((ledger.messages_before for ledger in self._ledgers), through)
        return max(0, through - first), self._ledgers.total_messages - through

    def recount(self) -> Totals:
        """Count the totals from scratch and return them."""
        return count_state(self._ledgers, self._index, self._acked, self._mark_delete)

    def acked_only_here(self, other: Cursor) -> Totals:
        """Count everything that is acked in this cursor but not in `other`."""
        mine = AckedSet(self._mark_delete, self._acked, self.totals)
        theirs = AckedSet(other._mark_delete, other._acked, other.totals)
        count = acked_only_in if other._acked else acked_only_in_simple
        return count(self._ledgers, self._index, mine, theirs)

    def snapshot(self) -> CursorState:
        return CursorState(
            mark_delete=self._mark_delete,
            acked_messages=self._messages,
            acked_entries=self._entries,
            acked_bytes=self._bytes,
            chunks=self._acked.freeze(),
            version=self._version,
        )

    def restore(self, state: CursorState) -> None:
        """Replace the state."""
        old = self._acked
        self._load(state)
        self._replace_dirty(old)

    def partly_acked_next(self) -> tuple[Position, int] | None:
        """Return the next entry to read and its unacked members, or None if the entry is not partly acked."""
        inside = self.read_from()
        left = self._acked.remaining(*inside)
        return (inside, left) if left is not None else None

    def overlay_since(self, before: CursorState) -> AckOverlay:
        """Return the `AckOverlay` for undoing an operator's act. Call this right after the act."""
        return AckOverlay(
            mark_delete=self._mark_delete, passed=passed_by_act(before, self._mark_delete, self._acked)
        )

    def start_undo_overlay(self, overlay: AckOverlay) -> None:
        """Start to record client acks for a possible undo."""
        self._overlay = OverlayRecorder(overlay)

    def undo_overlay(self) -> AckOverlay | None:
        """Return the acks recorded for an undo, or None if nothing is being recorded."""
        return self._overlay.freeze() if self._overlay is not None else None

    def stop_undo_overlay(self) -> None:
        self._overlay = None

    def undo(
        self, snapshot: CursorState, act_mark_delete: Position, overlay: AckOverlay | None = None
    ) -> None:
        """Undo an operator's act, and keep the acks that came after the act.

        `snapshot` is the state before the act. `act_mark_delete` is the mark-delete right after the act.
        """
        overlay = overlay or self.undo_overlay() or AckOverlay()
        merged = merge_undo(
            self._ledgers, self._index, snapshot, act_mark_delete, overlay, self._mark_delete, self._acked
        )
        old, self._acked = self._acked, merged.chunks
        self._highest_acked = self._acked.highest()
        self._mark_delete = merged.mark_delete
        self._messages, self._entries, self._bytes = merged.totals
        self._version += 1
        self._replace_dirty(old)

    def take_dirty(self) -> CursorFlush | None:
        """Return the changes since the last call, or None if nothing changed.

        If storing the changes fails, call `put_back`.
        """
        acked = self._acked
        overlay = self._overlay.take_dirty() if self._overlay is not None else None
        if not (self._dirty or acked.dirty_bits or acked.dirty_sets or acked.dropped or overlay):
            return None
        flush = CursorFlush(
            mark_delete=self._mark_delete,
            acked_messages=self._messages,
            acked_entries=self._entries,
            acked_bytes=self._bytes,
            version=self._version,
            bitmaps={chunk_of(k): bytes(acked.bits.get(k, b"")).rstrip(b"\0") for k in acked.dirty_bits},
            ack_sets={chunk_of(k): dict(acked.sets.get(k, {})) for k in acked.dirty_sets},
            dropped=tuple(chunk_of(k) for k in sorted(acked.dropped)),
            overlay=overlay,
        )
        self._dirty = False
        acked.dirty_bits.clear()
        acked.dirty_sets.clear()
        acked.dropped.clear()
        return flush

    def put_back(self, flush: CursorFlush) -> None:
        """Mark the changes in `flush` as dirty again, because storing them may have failed."""
        self._dirty = True
        self._acked.put_back(flush)
        if self._overlay is not None and flush.overlay is not None:
            self._overlay.is_dirty = True

    def _load(self, state: CursorState) -> None:
        self._acked = AckChunks(state.chunks)
        self._highest_acked = self._acked.highest()
        self._mark_delete = state.mark_delete
        self._messages = state.acked_messages
        self._bytes = state.acked_bytes
        self._version = state.version
        self._entries = self._ledgers.entries_through(state.mark_delete) + self._acked.count(
            state.mark_delete
        )

    def _replace_dirty(self, old: AckChunks) -> None:
        now = set(self._acked.keys())
        before = set(old.keys()) | old.dropped | old.dirty_bits | old.dirty_sets
        gone, kept = before - now, before & now
        self._acked.mark_all_dirty()
        self._acked.dirty_bits |= kept
        self._acked.dirty_sets |= kept
        self._acked.dropped = gone
        self._dirty = True

    def _count_of(self, position: Position) -> int:
        messages = self._index.messages_in(position)
        if messages is None:
            if not self._ledgers.contains(position):
                return 0
            raise IndexMissing(self._index.unknown(position))
        return messages

    def _ack_unstored(self, position: Position) -> AckResult:
        """Ignore the ack if the entry was trimmed. Raise InvalidAck if the entry was never stored."""
        ledger = self._ledgers.get(position.ledger_id)
        is_emptied = ledger is not None and ledger.sealed and not ledger.entries
        if is_emptied or position < self._ledgers.first_position():
            return _NOTHING
        raise InvalidAck(
            f"ack of {position}, which is not stored; the last entry is {self._ledgers.last_position()}"
        )

    def _complete(self, position: Position) -> None:
        ledger_id, entry_id = position
        old = self._mark_delete
        touches = old.entry_id + 1 == entry_id and old.ledger_id == ledger_id
        # The entry after mark-delete may be the first entry of a later ledger.
        if not touches and (entry_id or self._ledgers.next_after(old) != position):
            self._acked.add(ledger_id, entry_id)
            if position > self._highest_acked:
                self._highest_acked = position
            return
        if not self._acked and entry_id & CHUNK_MASK:
            # There is nothing to drop: no later entry is acked, and mark-delete stays in the same chunk. A chunk is a
            # database row with the acks of 32,768 entries.
            self._mark_delete = position
            return
        if self._acked.sets:
            self._acked.forget_set_of(ledger_id, entry_id)
        self._mark_delete = settle(self._ledgers, self._acked, position)
        self._drop_behind(old)

    def _advance_to(self, target: Position) -> None:
        through = self._index.through(target)
        if through is None:
            raise IndexMissing(self._index.unknown(target))
        beyond = acked_after(self._ledgers, self._index, self._acked, self._mark_delete, target, self.totals)
        old = self._mark_delete
        self._messages = through[0] + beyond.messages
        self._entries = self._ledgers.entries_through(target) + beyond.entries
        self._bytes = through[1] + beyond.size_bytes
        self._mark_delete = settle(self._ledgers, self._acked, target)
        self._dirty = True
        self._drop_behind(old)

    def _drop_behind(self, old: Position) -> None:
        ledger = self._ledgers.get(self._mark_delete.ledger_id)
        self._acked.drop_through(old, self._mark_delete, ledger.entries - 1 if ledger is not None else 0)
