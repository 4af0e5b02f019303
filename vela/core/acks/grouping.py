"""The ack grouping tracker: collects acks until they are sent together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from vela.core.acks.batch_acks import BatchAcks, Position, check_batch, no_such_message

__all__ = [
    "ALL_ACKED",
    "DEFAULT_GROUP_MS",
    "DEFAULT_GROUP_SIZE",
    "AckGrouping",
    "EntryAck",
    "NoAckGrouping",
    "PendingAcks",
]

DEFAULT_GROUP_MS: Final = 100
DEFAULT_GROUP_SIZE: Final = 1000  # ids
ALL_ACKED: Final = -1
"""The result of `AckGrouping.acked_messages` if every bit is set."""

EntryAck: TypeAlias = tuple[int, int, int | None]
"""Ledger, entry, and the bits of the entry's unacked messages; None = the whole entry is acked."""


class PendingAcks(NamedTuple):
    """The acks to send, in this order."""

    cumulative: EntryAck | None
    individual: list[EntryAck]  # ascending by position, none of them covered by `cumulative`


class AckGrouping:
    """Acks of one topic between the application's call and the command to the broker. There is no timer.

    The caller sends `take()` at once if `is_full`, and otherwise `group_ms` after the first ack of the group. The
    caller takes only what it can send, so acks stay here while there is no connection. Acking a message twice does no
    harm. Without `batch_index_acks`, acks of a batch are sent only when all its messages are acked.
    """

    __slots__ = ("_batch_index_acks", "_batches", "_cumulative", "_max_ids", "_partly", "_whole", "is_full")

    def __init__(
        self,
        *,
        group_ms: int = DEFAULT_GROUP_MS,
        max_ids: int = DEFAULT_GROUP_SIZE,
        batch_index_acks: bool = True,
    ) -> None:
        if group_ms < 0 or max_ids < 1:
            raise ValueError("ack_group_time_ms must be 0 or more, and ack_group_size 1 or more")
        self._max_ids = max_ids if group_ms else 1
        self._batch_index_acks = batch_index_acks
        self._batches = BatchAcks()
        self._whole: set[Position] = set()
        self._partly: set[Position] = set()  # batches with acks that the broker does not know
        self._cumulative: EntryAck | None = None
        self.is_full = False

    def __len__(self) -> int:
        """Return the number of collected ids."""
        return len(self._whole) + len(self._partly) + (self._cumulative is not None)

    # -- the application's acks ------------------------------------------------------------------------------------

    def add(self, ledger_id: int, entry_id: int, batch_index: int = -1, batch_size: int = 0) -> bool:
        """Ack one message. Return whether its whole entry is acked now.

        Raises ValueError, and changes nothing, for an id whose batch cannot have such a message.
        """
        position = (ledger_id, entry_id)
        if batch_index >= 0:
            batch = self._batches.get(position)
            if batch is None:
                if position in self._whole:
                    return True
                batch = self._batches.open(position, batch_size, batch_index)
            elif batch_index >= batch.size:
                raise no_such_message(batch_index, batch.size)
            remaining = batch.remaining
            bit = 1 << batch_index
            if not remaining & bit:
                return False
            batch.remaining = remaining = remaining ^ bit
            if remaining:
                if self._batch_index_acks and not batch.is_waiting:
                    batch.is_waiting = True
                    self._partly.add(position)
                    self._count()
                return False
            self._batches.close(position)
            self._partly.discard(position)
        self._whole.add(position)
        if len(self._whole) + len(self._partly) >= self._max_ids:
            self.is_full = True
        return True

    def check(self, ids: Iterable[tuple[int, int, int, int]]) -> None:
        """Raise ValueError if `add` would refuse one of these ids: ledger, entry, batch index and batch size."""
        sizes: dict[Position, int] = {}
        for ledger_id, entry_id, batch_index, batch_size in ids:
            position = (ledger_id, entry_id)
            if batch_index < 0 or position in self._whole:
                continue
            batch = self._batches.get(position)
            size = sizes.setdefault(position, batch_size if batch is None else batch.size)
            check_batch(size, batch_index)

    def add_cumulative(
        self, ledger_id: int, entry_id: int, batch_index: int = -1, batch_size: int = 0
    ) -> Position | None:
        """Ack everything up to and including one message.

        Returns the last entry that is wholly acked by this call, or None if there is nothing new to send. Without batch
        index acks, a message inside a batch acks only the entries before the batch. After that, calls for the same
        batch return None until its last message is acked. Raises ValueError like `add`.
        """
        position, remaining = (ledger_id, entry_id), None
        if batch_index >= 0 and (remaining := self._remaining_after(position, batch_index, batch_size)):
            if not self._batch_index_acks:
                batch = self._batches.get(position)
                assert batch is not None
                if batch.previous_acked:
                    return None
                batch.previous_acked = True
                return self._cover((ledger_id, entry_id - 1, None))
            return self._cover((ledger_id, entry_id, remaining))
        return self._cover((ledger_id, entry_id, None))

    def _remaining_after(self, position: Position, batch_index: int, batch_size: int) -> int | None:
        """Return the bits of a batch that stay unacked, or None if all are acked."""
        batch = self._batches.get(position)
        if batch is None:
            if position in self._whole:
                return None
            batch = self._batches.open(position, batch_size, batch_index)
        elif batch_index >= batch.size:
            raise no_such_message(batch_index, batch.size)
        through = (1 << (batch_index + 1)) - 1
        batch.remaining &= ~through
        # send these acks again: the individual acks may have been lost with their connection
        batch.told |= through
        return batch.remaining or None

    def _cover(self, ack: EntryAck) -> Position | None:
        known = self._cumulative
        if known is not None and _covers(known, ack):
            return None
        self._cumulative = ack
        ledger_id, entry_id, remaining = ack
        last_whole = (ledger_id, entry_id if remaining is None else entry_id - 1)
        self._batches.close_through(last_whole)
        self._whole = {position for position in self._whole if position > last_whole}
        self._partly = {position for position in self._partly if position > last_whole}
        batch = self._batches.get((ledger_id, entry_id))
        if batch is not None and remaining is not None:
            batch.is_waiting = True
        self._count()
        return last_whole

    def _count(self) -> None:
        if len(self._whole) + len(self._partly) >= self._max_ids or self._max_ids == 1:
            self.is_full = True

    # -- sending ---------------------------------------------------------------------------------------------------

    def take(self) -> PendingAcks | None:
        """Remove and return the collected acks for the caller to send, or None if there are none."""
        if not len(self):
            return None
        individual: list[EntryAck] = [(ledger_id, entry_id, None) for ledger_id, entry_id in self._whole]
        cumulative = self._cumulative
        for position in self._partly:
            batch = self._batches.get(position)
            assert batch is not None
            batch.told, batch.is_waiting = batch.remaining, False
            if cumulative is None or position != cumulative[:2]:
                individual.append((*position, batch.remaining))
        if cumulative is not None and cumulative[2] is not None:
            batch = self._batches.get(cumulative[:2])
            if batch is not None:
                batch.told, batch.is_waiting = batch.remaining, False
                cumulative = (*cumulative[:2], batch.remaining)
        if cumulative is not None:
            covered = (cumulative[0], cumulative[1] if cumulative[2] is None else cumulative[1] - 1)
            individual = [ack for ack in individual if ack[:2] > covered]
        individual.sort(key=_position)
        self._whole.clear()
        self._partly.clear()
        self._cumulative = None
        self.is_full = False
        return PendingAcks(cumulative, individual)

    # -- deliveries ------------------------------------------------------------------------------------------------

    def acked_messages(self, ledger_id: int, entry_id: int) -> int:
        """Return the bits of an entry's messages whose acks are not sent yet; ALL_ACKED = all of them, 0 = none.

        The broker does not know these acks yet, so a delivery of these messages is a duplicate.
        """
        if not self._whole and not self._partly and self._cumulative is None:
            return 0
        position = (ledger_id, entry_id)
        if position in self._whole:
            return ALL_ACKED
        if self._cumulative is not None and _covers(self._cumulative, (ledger_id, entry_id, None)):
            return ALL_ACKED
        batch = self._batches.get(position)
        return batch.unsent if batch is not None and batch.is_waiting else 0

    def unacked_messages(self, ledger_id: int, entry_id: int, batch_size: int) -> int:
        """Return the bits of an entry's messages that are not acked here.

        A single message is bit 0.
        """
        if self.acked_messages(ledger_id, entry_id) == ALL_ACKED:
            return 0
        batch = self._batches.get((ledger_id, entry_id))
        return (1 << max(batch_size, 1)) - 1 if batch is None else batch.remaining

    def delivered(self, ledger_id: int, entry_id: int, batch_size: int, ack_set: int | None) -> None:
        """Note a delivery of a batch, before the application gets its messages. See `BatchAcks.delivered`."""
        if ack_set is not None or self._batches:
            self._batches.delivered((ledger_id, entry_id), batch_size, ack_set)

    def asked_again(self, positions: Iterable[Position] | None) -> None:
        """Note that these entries are delivered again, perhaps to another consumer; None = all. Collected acks stay."""
        if positions is None:
            self._batches.forget_settled()
            return
        for position in positions:
            batch = self._batches.get(position)
            if batch is not None and not batch.is_waiting:
                self._batches.close(position)

    def attached(self) -> None:
        """Note a new connection, over which unacked messages are delivered again. Collected acks stay."""
        self._batches.forget_settled()

    def clear(self) -> None:
        """Forget everything, because this client has moved the subscription."""
        self._batches.clear()
        self._whole.clear()
        self._partly.clear()
        self._cumulative = None
        self.is_full = False


class NoAckGrouping(AckGrouping):
    """For topics that store nothing: acks change nothing, and nothing is sent."""

    __slots__ = ()

    def check(self, ids: Iterable[tuple[int, int, int, int]]) -> None:
        pass

    def add(self, ledger_id: int, entry_id: int, batch_index: int = -1, batch_size: int = 0) -> bool:
        return True

    def add_cumulative(
        self, ledger_id: int, entry_id: int, batch_index: int = -1, batch_size: int = 0
    ) -> Position | None:
        return ledger_id, entry_id

    def delivered(self, ledger_id: int, entry_id: int, batch_size: int, ack_set: int | None) -> None:
        pass


def _covers(known: EntryAck, ack: EntryAck) -> bool:
    """Return whether the cumulative ack `known` covers `ack`. Within a batch, a later message covers more."""
    if known[:2] != ack[:2]:
        return known[:2] > ack[:2]
    return known[2] is None or known[2] == ack[2]


def _position(ack: EntryAck) -> Position:
    return ack[:2]
