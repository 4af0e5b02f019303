"""A source is one topic or partition to which a WebSocket consumer or reader is subscribed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker.core.position import Position
from broker.core.subscription.departure import DepartureCause
from broker.doors.websocket.consumer.fragment_cache import Fragment
from broker.doors.websocket.json.batch_acks import BatchAcks, EntryAck
from broker.doors.websocket.json.consumer import encrypted_fragment
from broker.doors.websocket.json.options import CryptoFailureAction
from broker.subscription.requests import AckRequest, Delivery
from vela.wire.binary.enums import ValidationError
from vela.wire.entry import decode_encrypted
from vela.wire.errors import (
    BatchCorrupt,
    CodecUnavailable,
    DecompressionFailed,
    EntryCorrupt,
    EntryEncrypted,
    EntryIsChunk,
    UncompressedSizeExceeded,
)

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.doors.ports import ConsumerPort
    from broker.doors.websocket.consumer.fragment_cache import FragmentCache
    from broker.doors.websocket.json.unanswered import Unanswered

__all__ = ["DeliverySource", "LetterBox", "Outgoing", "SourceOwner"]

logger = logging.getLogger(__name__)

# After one of these errors, the entry stays unacked, because other clients may be able to read it. For an encrypted
# entry, `crypto_failure_action` may say otherwise.
_UNREADABLE: Final = (EntryEncrypted, EntryIsChunk, CodecUnavailable)


class SourceOwner(Protocol):
    """The part of a socket that sources use."""

    def push(self, source: DeliverySource, entry: Outgoing) -> None:
        """Queue the messages of an entry for writing."""

    def flush(self) -> None:
        """Write as many queued messages as the delivery window allows."""

    def is_writable(self) -> bool:
        """Return whether the socket takes more deliveries."""

    def source_closed(self, reason: str) -> None:
        """Close the WebSocket, because the broker has closed the source's consumer."""

    async def is_alive(self) -> bool:
        """Return whether the peer answers a ping."""


class LetterBox(Protocol):
    """The part of `Letters` that sources use."""

    def bypasses(self, redeliveries: int) -> bool:
        """Return whether a delivery with this redelivery count goes straight to the dead-letter topic."""

    def take(self, source: DeliverySource, position: Position, permits: int) -> None:
        """Write the entry at `position` to the dead-letter topic, then grant `permits` to the broker."""


class Outgoing(NamedTuple):
    """The messages to push from one delivered entry."""

    ledger_id: int
    entry_id: int
    fragments: Sequence[Fragment]  # Never empty
    redelivery_count: int


class DeliverySource:
    """Decodes the entries that the broker delivers, tracks acks, and grants permits for a JSON client."""

    def __init__(
        self,
        owner: SourceOwner,
        cache: FragmentCache,
        *,
        partition: int,
        max_message_bytes: int,
        crypto_failure_action: CryptoFailureAction,
    ) -> None:
        self.partition = partition  # -1 if the topic is not partitioned
        self.consumer: ConsumerPort | None = None
        self.acks = BatchAcks()
        self.is_ended = False
        self.letters: LetterBox | None = None
        self.unanswered: Unanswered | None = None
        self._owner = owner
        self._cache = cache
        self._max_message_bytes = max_message_bytes
        self._crypto_failure_action = crypto_failure_action
        self._loop = asyncio.get_running_loop()
        self._acks_due: list[EntryAck] = []
        self._permits_due = 0
        self._is_scheduled = False

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Push these entries.

        `letters` takes the entries that go to the dead-letter topic. `_pass_over` handles the entries that cannot be
        decoded.
        """
        has_partly_acked = self.acks.partly_acked > 0
        for entry, redelivery_count, remaining in deliveries:
            charged = entry.messages if remaining is None else remaining.bit_count()
            ledger_id, entry_id = entry.ledger_id, entry.entry_id
            # Forget earlier acks even if `redelivery_count` is 0. On Exclusive and Failover, a redelivery also has 0.
            if has_partly_acked:
                self.acks.forget(ledger_id, entry_id)
            if redelivery_count and self.letters is not None and self.letters.bypasses(redelivery_count):
                self.letters.take(self, Position(ledger_id, entry_id), charged)
                continue
            try:
                fragments = self._cache.fragments(
                    ledger_id, entry_id, entry.data, max_message_bytes=self._max_message_bytes
                )
            except EntryCorrupt as error:
                self._pass_over(entry, redelivery_count, charged, error)
                continue
            if remaining is not None:
                fragments = [each for each in fragments if remaining >> max(each.batch_index, 0) & 1]
            if remaining is not None or len(fragments) != charged:
                self.acks.delivered(ledger_id, entry_id, _members(fragments))
            if len(fragments) != charged:
                self._settle_missing(Position(ledger_id, entry_id), charged, fragments)
            if fragments:
                self._owner.push(self, Outgoing(ledger_id, entry_id, fragments, redelivery_count))
        self._owner.flush()

    def _pass_over(
        self, entry: StoredEntry, redelivery_count: int, charged: int, error: EntryCorrupt
    ) -> None:
        position = Position(entry.ledger_id, entry.entry_id)
        if isinstance(error, EntryEncrypted):
            if self._crypto_failure_action is CryptoFailureAction.CONSUME:
                try:
                    fragment = Fragment(-1, 0, encrypted_fragment(decode_encrypted(entry.data)))
                except EntryCorrupt as damage:
                    error = damage
                else:
                    self._owner.push(self, Outgoing(*position, (fragment,), redelivery_count))
                    self.credit(charged - 1)
                    return
            elif self._crypto_failure_action is CryptoFailureAction.DISCARD:
                self._discard(position, ValidationError.DECRYPTION_ERROR)
                self.credit(charged)
                return
        if isinstance(error, _UNREADABLE):
            logger.warning("%s: entry %s:%s is left unacked: %s", self._name, *position, error)
        else:
            self._discard(position, _reason(error))
        self.credit(charged)

    def _discard(self, position: Position, reason: ValidationError) -> None:
        consumer = self.consumer
        if consumer is not None:
            # Ack later, because the broker is still handling this delivery.
            self._loop.call_soon(
                lambda: consumer.ack(
                    [AckRequest(position)],
                    cumulative=False,
                    validation_error=reason.name,
                    permits_settled=True,
                )
            )

    def _settle_missing(self, position: Position, charged: int, fragments: Sequence[Fragment]) -> None:
        """Ack the messages that compaction removed from a batch."""
        left = _members(fragments) or None
        self._acks_due.append(EntryAck(position.ledger_id, position.entry_id, left))
        self.credit(charged - len(fragments))

    @property
    def _name(self) -> str:
        return "?" if self.consumer is None else str(self.consumer.topic_name)

    def is_writable(self) -> bool:
        return self._owner.is_writable()

    def on_end_of_topic(self) -> None:
        """Record that the topic has ended."""
        self.is_ended = True

    def on_consumer_closed(self, reason: str) -> None:
        self.consumer = None
        self._owner.source_closed(reason)

    def close_connection(self, reason: str) -> None:
        self.on_consumer_closed(reason)

    def on_active_change(self, is_active: bool) -> None:
        """Do nothing, because Pulsar's WebSocket API has no frame for this change."""

    async def is_alive(self) -> bool:
        return await self._owner.is_alive()

    def ack(self, acks: Sequence[EntryAck]) -> None:
        """Ack these entries in the next iteration of the event loop."""
        self._acks_due += acks
        self._schedule()

    def ack_through(self, ack: EntryAck) -> None:
        """Apply this cumulative ack after all acks received so far."""
        self._settle()
        if self.consumer is not None:
            request = AckRequest(Position(ack.ledger_id, ack.entry_id), ack.remaining)
            self.consumer.ack([request], cumulative=True)

    def credit(self, messages: int) -> None:
        """Grant permits in the next iteration of the event loop. Ignore a number below 1."""
        if messages > 0:
            self._permits_due += messages
            self._schedule()

    def redeliver_at(self, position: Position, due_ms: int) -> None:
        """Redeliver the entry at `due_ms`, in milliseconds since 1970."""
        self.acks.forget(*position)
        self._settle()
        if self.consumer is not None:
            self.consumer.redeliver_at([position], due_ms)

    def detach(self, cause: DepartureCause) -> None:
        """Apply the acks received so far, then detach the consumer. Safe to repeat."""
        self._permits_due = 0
        self._settle()
        if self.consumer is not None:
            consumer, self.consumer = self.consumer, None
            consumer.detach(cause)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        self._is_scheduled = False
        consumer = self.consumer
        acks, self._acks_due = self._acks_due, []
        permits, self._permits_due = self._permits_due, 0
        if consumer is None:
            return
        if acks:
            consumer.ack(
                [AckRequest(Position(ack.ledger_id, ack.entry_id), ack.remaining) for ack in acks],
                cumulative=False,
            )
        if permits:
            consumer.flow(permits)


def _members(fragments: Sequence[Fragment]) -> int:
    return sum(1 << each.batch_index for each in fragments if each.batch_index >= 0)


def _reason(error: EntryCorrupt) -> ValidationError:
    match error:
        case UncompressedSizeExceeded():
            return ValidationError.UNCOMPRESSED_SIZE_CORRUPTION
        case DecompressionFailed():
            return ValidationError.DECOMPRESSION_ERROR
        case BatchCorrupt():
            return ValidationError.BATCH_DESERIALIZE_ERROR
    return ValidationError.CHECKSUM_MISMATCH
