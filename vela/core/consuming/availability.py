"""Whether a reader has a message left to read (Pulsar's hasMessageAvailable)."""

from __future__ import annotations

from vela.core.consuming.start_position import StartPosition
from vela.message import MessageId
from vela.wire.message_id import MessageId as WireId

__all__ = ["has_more"]


def has_more(
    *, last: WireId, mark_delete: WireId | None, start: StartPosition | None, taken: MessageId | None
) -> bool:
    """Return whether the topic has messages that the application has not taken.

    `last` is the topic's newest message, and `taken` the last one that the application took after its start or seek.
    `start` is the message of that start or seek; None = earliest, latest or a time. In that case only the broker knows
    the place, and `mark_delete` is the entry before the first one that the broker sends.
    """
    if last.entry_id < 0:
        return False
    newest = (last.ledger_id, last.entry_id, _index(last.batch_index))
    if mark_delete is not None and newest[:2] <= (mark_delete.ledger_id, mark_delete.entry_id):
        return False  # the last entries may be acked but not taken: filtered by the broker, or discarded
    if taken is not None:
        return newest > (taken.ledger_id(), taken.entry_id(), _index(taken.batch_index()))
    if start is not None:
        begin = (start.ledger_id, start.entry_id, _index(start.batch_index))
        return newest > begin or (start.inclusive and newest == begin)
    return True


def _index(batch_index: int) -> int:
    # An id without batch index stands for the end of its entry.
    return batch_index if batch_index >= 0 else 1 << 31
