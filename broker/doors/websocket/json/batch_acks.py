"""Turn acks of single messages into acks of entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.doors.websocket.json.errors import InvalidCommand
from vela.wire.message_id import MessageId

__all__ = ["MAX_BATCH_SIZE", "BatchAcks", "EntryAck"]

# The batch size comes from the client. Without a limit, a bitset of that size could take hundreds of megabytes.
MAX_BATCH_SIZE = 1 << 20


class EntryAck(NamedTuple):
    """The ack of one entry."""

    ledger_id: int
    entry_id: int
    remaining: int | None  # Bitset of messages to leave unacked, or None to ack the whole entry


class BatchAcks:
    """Turns a client's acks of message ids into acks of entries, for one topic or partition.

    A member is one message of a batch. Without `batch_index_acks`, an entry is acked after the client has acked all
    members of the latest delivery.
    """

    __slots__ = ("_batch_index_acks", "_max_entries", "_partly")

    def __init__(self, *, batch_index_acks: bool = True, max_entries: int = 10_000) -> None:
        self._batch_index_acks = batch_index_acks
        self._max_entries = max_entries
        self._partly: dict[tuple[int, int], int] = {}  # Bitsets of unacked members, by ledger and entry

    @property
    def partly_acked(self) -> int:
        """The number of entries that have a bitset of unacked members."""
        return len(self._partly)

    def individual(self, ids: Iterable[MessageId]) -> list[EntryAck]:
        """Return the entry acks for these ids, at most one for each entry. Repeated ids are harmless.

        Raises InvalidCommand for an impossible batch index or size, and if ids disagree about the size of a batch.
        After an error, no ack is recorded.
        """
        sizes: dict[tuple[int, int], int] = {}
        merged: dict[tuple[int, int], int] = {}  # Bitsets of members that these ids leave unacked
        for message_id in ids:
            position = (message_id.ledger_id, message_id.entry_id)
            if message_id.batch_index < 0:
                merged[position] = 0
                continue
            size = _checked_batch_size(message_id)
            known = merged.get(position)
            if known is None:
                known, sizes[position] = (1 << size) - 1, size
            elif known and sizes[position] != size:
                raise InvalidCommand(
                    "two ids of one batch disagree about its size; send back the ids as they came"
                )
            merged[position] = known & ~(1 << message_id.batch_index)
        acks = (self._entry_ack(p, remaining) for p, remaining in merged.items())
        return [ack for ack in acks if ack is not None]

    def _entry_ack(self, position: tuple[int, int], remaining: int) -> EntryAck | None:
        if not self._batch_index_acks and remaining:
            remaining &= self._partly.pop(position, remaining)
            if remaining:
                self._keep(position, remaining)
                return None
        self._partly.pop(position, None)
        return EntryAck(ledger_id=position[0], entry_id=position[1], remaining=remaining or None)

    def _keep(self, position: tuple[int, int], remaining: int) -> None:
        self._partly[position] = remaining
        if len(self._partly) > self._max_entries:
            del self._partly[next(iter(self._partly))]

    def delivered(self, ledger_id: int, entry_id: int, members: int) -> None:
        """Record which members of a batch the client gets. `members` is a bitset."""
        if members and not self._batch_index_acks:
            self._keep((ledger_id, entry_id), members)

    def cumulative(self, message_id: MessageId) -> EntryAck:
        """Return the ack of everything up to and including `message_id`.

        Without batch index acks, a batch is acked only as a whole. Raises InvalidCommand for an impossible batch index
        or size.
        """
        position = (message_id.ledger_id, message_id.entry_id)
        remaining = 0
        if message_id.batch_index >= 0:
            size = _checked_batch_size(message_id)
            through = (1 << (message_id.batch_index + 1)) - 1
            remaining = ((1 << size) - 1) & ~through
            remaining &= self._partly.get(position, remaining)
            if remaining and not self._batch_index_acks:
                remaining = (1 << size) - 1
        for known in [p for p in self._partly if p < position or (p == position and not remaining)]:
            del self._partly[known]
        return EntryAck(ledger_id=position[0], entry_id=position[1], remaining=remaining or None)

    def forget(self, ledger_id: int, entry_id: int) -> None:
        """Forget which members of an entry were acked."""
        self._partly.pop((ledger_id, entry_id), None)


def _checked_batch_size(message_id: MessageId) -> int:
    size = message_id.batch_size
    if not message_id.batch_index < size <= MAX_BATCH_SIZE:
        raise InvalidCommand(
            f"messageId names message {message_id.batch_index} of a batch of {size}; send it back as it came"
        )
    return size
