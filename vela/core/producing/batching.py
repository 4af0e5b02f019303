"""Batches: collect messages into one entry, and encode them as they come.

A batch closes when it has enough messages or bytes, or after a delay, which the caller measures. `T` is the object with
which the caller later answers a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from vela.core.producing.outgoing import Outgoing
from vela.wire.entry.groups import append_group, append_plain_group

__all__ = ["Batch", "BatchLimits", "Batching", "Gathering", "SequenceIds"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The limits at which a batch is full."""

    max_messages: int = 1000
    max_bytes: int = 128 * 1024  # as encoded, before compression; a larger message makes a batch of one


class Batch(Generic[T]):
    """The messages of one future entry, encoded, in order."""

    __slots__ = ("last_sequence_id", "named_by", "payload", "payload_bytes", "sequence_id", "tokens")

    def __init__(self, sequence_id: int, named_by: Outgoing | None = None) -> None:
        self.sequence_id = sequence_id  # of the first message
        self.last_sequence_id = sequence_id
        self.named_by = named_by  # with key-based batches, a message whose keys the entry also gets
        self.payload = bytearray()  # the encoded messages, uncompressed
        self.payload_bytes = 0  # size of the messages' payloads alone
        self.tokens: list[T] = []  # one per message

    def add(self, message: Outgoing, sequence_id: int, token: T) -> None:
        append_group(
            self.payload,
            message.payload,
            sequence_id,
            properties=message.properties,
            key=message.key,
            key_b64=message.key_b64,
            event_time_ms=message.event_time_ms,
            ordering_key=message.ordering_key,
            null_value=message.null_value,
        )
        self.last_sequence_id = sequence_id
        self.payload_bytes += len(message.payload)
        self.tokens.append(token)


class Gathering(Protocol[T]):
    """The interface of `Batching` and, for key-based batches, `KeyBatching`."""

    messages: int

    def fits(self, message: Outgoing) -> bool:
        """Return whether the message can join. If not, call `take()` first."""

    def add(self, message: Outgoing, token: T) -> bool:
        """Add a message that fits.

        Return True if the caller must `take()` now: the batch is full or accepts no other message.
        """

    def take(self) -> list[Batch[T]]:
        """Remove and return the gathered batches, in the order in which to send them."""


class SequenceIds:
    """A producer's counter of sequence ids. A higher explicit id moves the counter."""

    __slots__ = ("next",)

    def __init__(self, first: int) -> None:
        self.next = first

    def take(self, explicit: int | None) -> int:
        """Return `explicit`, or the next id if it is None."""
        if explicit is None:
            explicit = self.next
            self.next = explicit + 1
        elif explicit >= self.next:
            self.next = explicit + 1
        return explicit


class Batching(Generic[T]):
    """Gathers one batch at a time, with the messages in the order in which they came.

    A message whose id does not ascend may be a duplicate. It goes into a separate batch, because Pulsar's deduplication
    judges a whole batch by its first id and would drop new messages together with the duplicate.
    """

    __slots__ = ("_batch", "_limits", "_sequence_ids", "messages")

    def __init__(self, limits: BatchLimits, sequence_ids: SequenceIds) -> None:
        self._limits = limits
        self._sequence_ids = sequence_ids
        self._batch: Batch[T] | None = None
        self.messages = 0

    def fits(self, message: Outgoing) -> bool:
        """Return whether the message can join. If not, call `take()` first."""
        batch = self._batch
        if batch is None:
            return True
        if message.sequence_id is not None and message.sequence_id < self._sequence_ids.next:
            return False
        return len(batch.payload) + message.size_bytes() <= self._limits.max_bytes

    def add(self, message: Outgoing, token: T) -> bool:
        """Add a message that fits.

        Return True if the caller must `take()` now: the batch is full or accepts no other message.
        """
        explicit, ids = message.sequence_id, self._sequence_ids
        maybe_duplicate = explicit is not None and explicit < ids.next
        sequence_id = ids.take(explicit)
        batch = self._batch
        if batch is None:
            batch = self._batch = Batch(sequence_id)
        batch.add(message, sequence_id, token)
        self.messages += 1
        return (
            maybe_duplicate
            or self.messages >= self._limits.max_messages
            or len(batch.payload) >= self._limits.max_bytes
        )

    def add_plain(self, payload: bytes, token: T) -> bool | None:
        """Add a message that is a payload alone. Return True if the caller must `take()` now, None if it does not fit.

        This method does the work of `fits` and `add` in half the time, and most messages have only a payload.
        """
        batch, size, limits, ids = self._batch, len(payload), self._limits, self._sequence_ids
        sequence_id = ids.next
        if batch is None:
            batch = self._batch = Batch(sequence_id)
        elif len(batch.payload) + size > limits.max_bytes:
            return None
        groups = batch.payload
        append_plain_group(groups, payload, sequence_id)
        ids.next = sequence_id + 1
        batch.last_sequence_id = sequence_id
        batch.payload_bytes += size
        batch.tokens.append(token)
        self.messages += 1
        return self.messages >= limits.max_messages or len(groups) >= limits.max_bytes

    def take(self) -> list[Batch[T]]:
        """Remove and return the gathered batch, if there is one."""
        batch = self._batch
        self._batch, self.messages = None, 0
        return [] if batch is None else [batch]
