"""Taking back an operator's act without taking back what was acked since (design 9)."""

from __future__ import annotations

from broker.core.ack_chunks import AckChunks
from broker.core.ack_set import full
from broker.core.cursor_count import settle
from broker.core.cursor_state import AckOverlay, CursorState
from broker.core.ledger import LedgerMap
from broker.core.message_index import IndexMissing, MessageIndex
from broker.core.position import LATEST, Position


class OverlayRecorder:
    """Acks at or below mark-delete, which the cursor itself ignores, while an act can be undone.

    A cumulative ack beyond mark-delete says nothing of what the act passed: the client never received that.
    """

    def __init__(self, overlay: AckOverlay) -> None:
        self._through = overlay.through
        self._acked = AckChunks(overlay.chunks)
        self._partial = overlay.partial

    def ack(self, position: Position, remaining: int | None, messages: int) -> None:
        """`messages` of the entry are acked but for `remaining`; 0 messages: it is not stored any more."""
        if not messages or position <= self._through or self._acked.has(*position):
            return
        left = 0
        if remaining is not None:
            known = self._acked.remaining(*position)
            left = remaining & (known if known is not None else full(messages))
        if left:
            self._acked.set_remaining(*position, left)
        else:
            self._acked.add(*position)

    def ack_through(self, position: Position, remaining: int | None, messages: int) -> None:
        if remaining is None:
            self._through = max(self._through, position)
            return
        self._through = max(self._through, Position(position.ledger_id, position.entry_id - 1))
        self.ack(position, remaining, messages)

    def freeze(self) -> AckOverlay:
        return AckOverlay(through=self._through, chunks=self._acked.freeze(), partial=self._partial)


def merge_undo(
    ledgers: LedgerMap,
    index: MessageIndex,
    snapshot: CursorState,
    act_mark_delete: Position,
    overlay: AckOverlay,
    mark_delete: Position,
    acked: AckChunks,
) -> tuple[Position, AckChunks]:
    """Mark-delete and acks of: snapshot, overlay, and what (mark_delete, acked) hold beyond
    `act_mark_delete`.

    Raises IndexMissing; changes none of its arguments.
    """
    merged = AckChunks(snapshot.chunks)
    merge = _Merge(index, merged)
    inside = overlay.partial[0] if overlay.partial is not None else None
    floor = max(snapshot.mark_delete, overlay.through)
    merge.chunks(AckChunks(overlay.chunks))
    merge.split(overlay.partial, mark_delete, acked)
    for ledger_id, first, last in ledgers.spans(max(floor, act_mark_delete), mark_delete):
        # Split above: being past the entry on which the act ended acks only what the act left of it.
        start = first + 1 if inside == Position(ledger_id, first) else first
        if start <= last:
            merged.add_range(ledger_id, start, last)
    for ledger_id, first, last in acked.runs(max(mark_delete, act_mark_delete), LATEST):
        merged.add_range(ledger_id, first, last)
    for ledger_id, entry_id, left in acked.partials(max(mark_delete, act_mark_delete), LATEST):
        if inside != Position(ledger_id, entry_id):
            merge.partial(ledger_id, entry_id, left)
    merged.drop_ledgers_before(ledgers.first_position().ledger_id)
    settled = settle(ledgers, merged, floor)
    stored = ledgers.get(settled.ledger_id)
    merged.drop_through(snapshot.mark_delete, settled, stored.entries - 1 if stored is not None else 0)
    merged.dropped.clear()
    return settled, merged


class _Merge:
    """Unions into one AckChunks."""

    def __init__(self, index: MessageIndex, into: AckChunks) -> None:
        self._index = index
        self._into = into

    def chunks(self, other: AckChunks) -> None:
        before_all = Position(-2, 0)
        for ledger_id, first, last in other.runs(before_all, LATEST):
            self._into.add_range(ledger_id, first, last)
        for ledger_id, entry_id, left in other.partials(before_all, LATEST):
            self.partial(ledger_id, entry_id, left)

    def partial(self, ledger_id: int, entry_id: int, left: int) -> None:
        if self._into.has(ledger_id, entry_id):
            return
        known = self._into.remaining(ledger_id, entry_id)
        if known is not None:
            left &= known
        if left:
            self._into.set_remaining(ledger_id, entry_id, left)
        else:
            self._into.add(ledger_id, entry_id)

    def split(self, partial: tuple[Position, int] | None, mark_delete: Position, acked: AckChunks) -> None:
        """The entry on which an act ended inside a batch: only members acked since count, not those it
        passed.
        """
        if partial is None:
            return
        position, left_by_act = partial
        if position <= mark_delete or acked.has(*position):
            left_now = 0
        else:
            known = acked.remaining(*position)
            left_now = known if known is not None else left_by_act
        messages = self._index.messages_in(position)
        if messages is None:
            if not (unknown := self._index.unknown(position)):
                return  # trimmed: nothing of it is left to be acked
            raise IndexMissing(unknown)
        self.partial(*position, full(messages) & ~(left_by_act & ~left_now))
