"""Taking back an operator's act without taking back what was acked since (design 9)."""

from __future__ import annotations

from broker.core.ack_chunks import AckChunks
from broker.core.ack_set import full
from broker.core.cursor_count import AckedSet, acked_only_in, count_state, settle
from broker.core.cursor_state import AckOverlay, CursorState, Totals
from broker.core.ledger import LedgerMap
from broker.core.message_index import IndexMissing, MessageIndex
from broker.core.position import EARLIEST, LATEST, Position


class OverlayRecorder:
    """Acks at or below mark-delete, which the cursor itself ignores, while an act can be undone.

    A cumulative ack beyond mark-delete says nothing of what the act passed: the client never received that.
    """

    def __init__(self, overlay: AckOverlay) -> None:
        self._mark_delete = overlay.mark_delete
        self._through = overlay.through
        self._acked = AckChunks(overlay.chunks)
        self._partial = overlay.partial
        # An entry that the act acked wholly, beyond mark-delete: nobody gets it any more, so whoever acks it has it. Of
        # a batch of which members are left that cannot be told: its ack may come from one who got only those.
        self.passed_entry = (
            overlay.partial[0] if overlay.partial is not None and not overlay.partial[1] else None
        )
        self.is_dirty = False  # holds what is not stored

    def ack(self, position: Position, remaining: int | None, messages: int) -> None:
        """`messages` of the entry are acked but for `remaining`; 0 messages: it is not stored any more."""
        if position > self._mark_delete and position != self.passed_entry:
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
        """What is to be stored; None when nothing came since the last call."""
        if not self.is_dirty:
            return None
        self.is_dirty = False
        return self.freeze()

    def freeze(self) -> AckOverlay:
        return AckOverlay(
            mark_delete=self._mark_delete,
            through=self._through,
            chunks=self._acked.freeze(),
            partial=self._partial,
        )


def merge_undo(
    ledgers: LedgerMap,
    index: MessageIndex,
    snapshot: CursorState,
    act_mark_delete: Position,
    overlay: AckOverlay,
    mark_delete: Position,
    acked: AckChunks,
) -> AckedSet:
    """Snapshot, overlay, and what (mark_delete, acked) hold beyond `act_mark_delete`, by whole chunks.

    Raises IndexMissing; changes none of its arguments.
    """
    before = AckChunks(snapshot.chunks)
    merged = AckChunks(snapshot.chunks)
    inside = overlay.partial[0] if overlay.partial is not None else None
    floor = max(snapshot.mark_delete, overlay.through)
    recorded = AckChunks(overlay.chunks)
    merged.union(recorded, EARLIEST)
    for ledger_id, entry_id, left in recorded.partials(EARLIEST, LATEST):
        _merge_members(merged, ledger_id, entry_id, left)
    if overlay.partial is not None:
        _merge_inside(index, merged, overlay.partial, mark_delete, acked)
    for ledger_id, first, last in ledgers.spans(max(floor, act_mark_delete), mark_delete):
        _add_range(merged, ledger_id, first, last, without=inside)
    beyond = max(mark_delete, act_mark_delete)
    merged.union(acked, beyond, without=inside)
    for ledger_id, entry_id, left in acked.partials(beyond, LATEST):
        if inside != Position(ledger_id, entry_id):
            _merge_members(merged, ledger_id, entry_id, left)
    merged.drop_ledgers_before(ledgers.first_position().ledger_id)
    settled = settle(ledgers, merged, floor)
    stored = ledgers.get(settled.ledger_id)
    merged.drop_through(snapshot.mark_delete, settled, stored.entries - 1 if stored is not None else 0)
    merged.dropped.clear()
    if snapshot.mark_delete < ledgers.previous_of(ledgers.first_position()):
        # Messages that the snapshot still had to come have been trimmed: its totals say nothing any more.
        return AckedSet(settled, merged, count_state(ledgers, index, merged, settled))
    # Counted from the snapshot on: what was acked since is little, and what the snapshot holds is known.
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


def _add_range(into: AckChunks, ledger_id: int, first: int, last: int, *, without: Position | None) -> None:
    if without is not None and without.ledger_id == ledger_id and first <= without.entry_id <= last:
        pieces = [(first, without.entry_id - 1), (without.entry_id + 1, last)]
    else:
        pieces = [(first, last)]
    for low, high in pieces:
        if low <= high:
            into.add_range(ledger_id, low, high)


def _merge_members(into: AckChunks, ledger_id: int, entry_id: int, left: int) -> None:
    """One batch: unacked is what is unacked in both."""
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
    index: MessageIndex,
    into: AckChunks,
    partial: tuple[Position, int],
    mark_delete: Position,
    acked: AckChunks,
) -> None:
    """The entry on which an act ended: only members acked since count, not those that it passed."""
    position, left_by_act = partial
    if not left_by_act:
        return  # it passed the whole entry; acks of it are in the overlay
    if position <= mark_delete or acked.has(*position):
        left_now = 0
    else:
        known = acked.remaining(*position)
        left_now = known if known is not None else left_by_act
    if left_now == left_by_act:
        return
    messages = index.messages_in(position)
    if messages is None:
        if not (unknown := index.unknown(position)):
            return  # trimmed: nothing of it is left to be acked
        raise IndexMissing(unknown)
    _merge_members(into, *position, full(messages) & ~(left_by_act & ~left_now))
