"""Key-based batches: one batch for each key, so that Key_Shared can send each batch to its key's consumer."""

from __future__ import annotations

from typing import Generic, TypeVar

from vela.core.producing.batching import Batch, BatchLimits, SequenceIds
from vela.core.producing.outgoing import Outgoing

__all__ = ["KeyBatching"]

T = TypeVar("T")


class KeyBatching(Generic[T]):
    """Gathers messages by key. The limits count over all keys.

    Messages get their sequence ids when the batches are taken, batch after batch. Ids in the order of arrival would
    interleave between the batches, and deduplication may drop a batch that begins below the end of an earlier one. For
    the same reason a message with its own id only joins messages of its key, with ascending ids.
    """

    __slots__ = ("_bytes", "_explicit", "_limits", "_sequence_ids", "_waiting", "messages")

    def __init__(self, limits: BatchLimits, sequence_ids: SequenceIds) -> None:
        self._limits = limits
        self._sequence_ids = sequence_ids
        self._waiting: dict[bytes | None, list[tuple[Outgoing, T]]] = {}  # by sticky key
        self._bytes = 0  # over all keys
        self._explicit: int | None = None  # the sequence id of the last message, if the application chose it
        self.messages = 0

    def fits(self, message: Outgoing) -> bool:
        """Return whether the message can join. If not, call `take()` first."""
        if not self.messages:
            return True
        if self._bytes + message.size_bytes() > self._limits.max_bytes:
            return False
        if message.sequence_id is None and self._explicit is None:
            return True
        return (
            message.sequence_id is not None
            and self._explicit is not None
            and message.sequence_id > self._explicit
            and message.sequence_id >= self._sequence_ids.next
            and message.sticky_key() in self._waiting
        )

    def add(self, message: Outgoing, token: T) -> bool:
        """Add a message that fits.

        Return True if the caller must `take()` now: the batches are full or accept no other message.
        """
        duplicate = message.sequence_id is not None and message.sequence_id < self._sequence_ids.next
        self._explicit = message.sequence_id
        self._waiting.setdefault(message.sticky_key(), []).append((message, token))
        self._bytes += message.size_bytes()
        self.messages += 1
        return (
            duplicate or self.messages >= self._limits.max_messages or self._bytes >= self._limits.max_bytes
        )

    def take(self) -> list[Batch[T]]:
        """Remove and return a batch for each key, in the order in which the keys came."""
        batches: list[Batch[T]] = []
        for members in self._waiting.values():
            batch: Batch[T] | None = None
            for message, token in members:
                sequence_id = self._sequence_ids.take(message.sequence_id)
                if batch is None:
                    batch = Batch(sequence_id, named_by=members[0][0])
                    batches.append(batch)
                batch.add(message, sequence_id, token)
        self._waiting, self._bytes, self._explicit, self.messages = {}, 0, None, 0
        return batches
