"""Undo an operator's act, such as a skip or a reset, and keep the acks that came after the act."""

from __future__ import annotations

from broker.core.cursor.ack_chunks import AckChunks
from broker.core.cursor.counting import AckedSet, acked_only_in, count_state, settle
from broker.core.cursor.state import AckChunk, AckOverlay, CursorState, Totals
from broker.core.ledgers.ledger import LedgerMap
from broker.core.ledgers.message_index import IndexMissing, MessageIndex
from broker.core.position import EARLIEST, LATEST, Position
from vela.wire.ack_set import full


class OverlayRecorder:
    """Records client acks of messages that an operator's act had already acked.

    Ignores cumulative acks beyond the act's mark-delete. Such an ack also covers messages that the act acked, and the
    client may never have received these messages.
    """

    def __init__(self, overlay: AckOverlay) -> None:
        self._mark_delete = overlay.mark_delete
        self._through = overlay.through
        self._acked = AckChunks(overlay.chunks)
        self._stored_passed = overlay.passed
        self._passed = AckChunks(overlay.passed)
        self.is_dirty = False

    def has_passed(self, position: Position) -> bool:
        """Return whether the entry lies beyond the act's mark-delete and the act acked the whole entry."""
        return bool(self._passed.bits) and self._passed.has(*position)

    def ack(self, position: Position, remaining: int | None, messages: int) -> None:
        """Record an ack of an entry, except for the batch members in `remaining`.

        `messages` is the number of messages in the entry, or 0 if the entry is no longer stored.
        """
        if position > self._mark_delete and not self.has_passed(position):
            return
        if not messages or position <= self._through or self._acked.has(*position):
            return
        self.is_dirty = True
        left = 0
        if remaining is not None:
            known = self._acked.remaining(*position)
            left = remaining & (known if known is not None else full(messages))
        if left:
            self._acked.set_remaining(*position, left)
        else:
            self._acked.add(*position)

    def ack_through(self, position: Position, remaining: int | None, messages: int) -> None:
        if position > self._mark_delete:
            return
        self.is_dirty = True
        if remaining is None:
            self._through = max(self._through, position)
            return
        self._through = max(self._through, Position(position.ledger_id, position.entry_id - 1))
        self.ack(position, remaining, messages)

    def take_dirty(self) -> AckOverlay | None:
        """Return the overlay to store, or None if nothing was recorded since the last call."""
        if not self.is_dirty:
            return None
        self.is_dirty = False
        return self.freeze()

    def freeze(self) -> AckOverlay:
        return AckOverlay(
            mark_delete=self._mark_delete,
            through=self._through,
            chunks=self._acked.freeze(),
            passed=self._stored_passed,
        )


def passed_by_act(before: CursorState, mark_delete: Position, acked: AckChunks) -> tuple[AckChunk, ...]:
    """Return the acks beyond mark-delete that an operator's act added.

    `before` is the state before the act. `mark_delete` and `acked` are the state right after the act.
    """
    then = AckChunks(before.chunks)
    floor = max(before.mark_delete, mark_delete)
    passed = AckChunks()
    passed.union(acked, floor, without=then)
    for ledger_id, entry_id, left in acked.partials(floor, LATEST):
        if not then.has(ledger_id, entry_id) and then.remaining(ledger_id, entry_id) != left:
            passed.set_remaining(ledger_id, entry_id, left)
    return passed.freeze()


def merge_undo(
    ledgers: LedgerMap,
    index: MessageIndex,
    snapshot: CursorState,
    act_mark_delete: Position,
    overlay: AckOverlay,
    mark_delete: Position,
    acked: AckChunks,
) -> AckedSet:
    """Return the acks that a cursor has after an undo. Raises IndexMissing if message counts are not in memory.

    `snapshot` is the state before the act. `mark_delete` and `acked` are the state right before the undo.
    """
    before = AckChunks(snapshot.chunks)
    merged = AckChunks(snapshot.chunks)
    floor = max(snapshot.mark_delete, overlay.through)
    _merge(merged, AckChunks(overlay.chunks))
    now = AckChunks()
    for ledger_id, first, last in ledgers.spans(max(floor, act_mark_delete), mark_delete):
        now.add_range(ledger_id, first, last)
    beyond = max(mark_delete, act_mark_delete)
    now.union(acked, beyond)
    for ledger_id, entry_id, left in acked.partials(beyond, LATEST):
        now.set_remaining(ledger_id, entry_id, left)
    passed = AckChunks(overlay.passed)
    for ledger_id, entry_id, left_by_act in passed.partials(floor, LATEST):
        _merge_inside(index, merged, Position(ledger_id, entry_id), left_by_act, now)
    # Leave out the entries that the act acked. `merged` already has the client acks of these entries.
    now.subtract(passed)
    _merge(merged, now)
    merged.drop_ledgers_before(ledgers.first_position().ledger_id)
    settled = settle(ledgers, merged, floor)
    stored = ledgers.get(settled.ledger_id)
    merged.drop_through(snapshot.mark_delete, settled, stored.entries - 1 if stored is not None else 0)
    merged.dropped.clear()
    if snapshot.mark_delete < ledgers.previous_of(ledgers.first_position()):
        # Count all acked messages again, because some unacked messages of the snapshot may have been trimmed.
        return AckedSet(settled, merged, count_state(ledgers, index, merged, settled))
    then = AckedSet(
        snapshot.mark_delete,
        before,
        Totals(
            snapshot.acked_messages,
            ledgers.entries_through(snapshot.mark_delete) + before.count(snapshot.mark_delete),
            snapshot.acked_bytes,
        ),
    )
    since = acked_only_in(ledgers, index, AckedSet(settled, merged, Totals(0, 0, 0)), then)
    totals = Totals(*(old + new for old, new in zip(then.totals, since, strict=True)))
    return AckedSet(settled, merged, totals)


def _merge(into: AckChunks, other: AckChunks) -> None:
    into.union(other, EARLIEST)
    for ledger_id, entry_id, left in other.partials(EARLIEST, LATEST):
        _merge_members(into, ledger_id, entry_id, left)


def _merge_members(into: AckChunks, ledger_id: int, entry_id: int, left: int) -> None:
    if into.has(ledger_id, entry_id):
        return
    known = into.remaining(ledger_id, entry_id)
    if known is not None:
        left &= known
    if left:
        into.set_remaining(ledger_id, entry_id, left)
    else:
        into.add(ledger_id, entry_id)


def _merge_inside(
    index: MessageIndex, into: AckChunks, position: Position, left_by_act: int, now: AckChunks
) -> None:
    left_now = 0
    if not now.has(*position):
        known = now.remaining(*position)
        left_now = known if known is not None else left_by_act
    if left_now == left_by_act:
        return
    messages = index.messages_in(position)
    if messages is None:
        if not (unknown := index.unknown(position)):
            return  # The batch was trimmed
        raise IndexMissing(unknown)
    _merge_members(into, *position, full(messages) & ~(left_by_act & ~left_now))
