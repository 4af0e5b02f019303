"""The acks of messages in batches. An entry is acked when all its messages are acked."""

from __future__ import annotations

from typing import Final, TypeAlias

__all__ = ["MAX_BATCH_SIZE", "Batch", "BatchAcks", "Position", "check_batch", "no_such_message"]

Position: TypeAlias = tuple[int, int]
"""Ledger and entry of one topic."""

# More messages than an uncompressed entry of 5 MiB can hold, and Vela's producers make no larger batch. A bit set is as
# long as the batch size that an id claims. Without this limit, a made-up id could cost gigabytes.
MAX_BATCH_SIZE: Final = 1 << 20


def check_batch(size: int, index: int) -> None:
    """Raise ValueError for a size that no batch has, or an index that a batch of this size does not have.

    Also raises it for a batch of more than MAX_BATCH_SIZE messages, which another client's producer may have made.
    """
    if size > MAX_BATCH_SIZE:
        raise ValueError(
            f"the id names a batch of {size} messages, and only those of at most {MAX_BATCH_SIZE} can be acknowledged"
            " one by one: acknowledge the whole batch with MessageId(partition, ledger_id, entry_id), and have the"
            " producer make smaller ones"
        )
    if size <= 0:
        raise ValueError(
            f"the id names a batch of {size} messages, which cannot be: use ids as they were received"
        )
    if index >= size:
        raise no_such_message(index, size)


def no_such_message(index: int, size: int) -> ValueError:
    """Return the error for an id with an index that its batch does not have."""
    return ValueError(f"the id names message {index}, counted from 0, of a batch of {size}")


class Batch:
    """A batch that is partly acked here. Bit i stands for message i."""

    __slots__ = ("is_waiting", "previous_acked", "remaining", "size", "told")

    def __init__(self, size: int, remaining: int) -> None:
        self.size = size  # in messages
        self.remaining = remaining  # messages not acked yet
        self.told = remaining  # the remaining messages as the broker knows them
        self.is_waiting = False  # some acks wait to be sent
        self.previous_acked = False  # a cumulative ack inside this batch has acked all earlier entries

    @property
    def unsent(self) -> int:
        """Return the bits of messages whose acks the broker does not know yet."""
        return self.told & ~self.remaining


class BatchAcks:
    """The batches of one topic that are partly acked here.

    The state of a batch is found by the batch's position and is not part of message ids. So an id can be acked even if
    it was stored and read back.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Position, Batch] = {}

    def __len__(self) -> int:
        return len(self._open)

    def get(self, position: Position) -> Batch | None:
        """Return the state of a batch, or None if it is not tracked."""
        return self._open.get(position)

    def open(self, position: Position, size: int, index: int) -> Batch:
        """Start to track a batch without acks, for the ack of the message at `index`.

        Raises the errors of `check_batch`, and then tracks nothing.
        """
        check_batch(size, index)
        batch = self._open[position] = Batch(size, (1 << size) - 1)
        return batch

    def delivered(self, position: Position, size: int, ack_set: int | None) -> None:
        """Note a delivery of the batch. `ack_set` has the bits of the messages to process; None means all.

        Keeps the acks that wait to be sent. Forgets the others: those that were sent are in the ack set, and without
        batch index acks, the application gets the whole batch again.
        """
        known = self._open.get(position)
        if known is None and ack_set is None:
            return
        full = (1 << size) - 1
        fresh = Batch(size, full if ack_set is None else full & ack_set)
        if known is not None and known.is_waiting:
            fresh.remaining &= ~known.unsent
            fresh.is_waiting = True
        if fresh.remaining == full and not fresh.is_waiting:
            self._open.pop(position, None)
        else:
            self._open[position] = fresh

    def close(self, position: Position) -> None:
        """Forget a batch that is wholly acked or no longer needed. Safe to repeat."""
        self._open.pop(position, None)

    def close_through(self, position: Position) -> None:
        """Forget every batch up to this position, like `close`."""
        for known in [known for known in self._open if known <= position]:
            del self._open[known]

    def forget_settled(self) -> None:
        """Forget batches without acks that wait to be sent, because the broker delivers these batches again."""
        self._open = {position: batch for position, batch in self._open.items() if batch.is_waiting}

    def clear(self) -> None:
        self._open.clear()
