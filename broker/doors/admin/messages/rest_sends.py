"""Publish the messages of a REST request to one topic or partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError, MessageTooLarge, SendOutcomeUnknown, ServiceNotReady
from broker.core.hash_slots import slot_of_key
from broker.log.sends import Receipt, SendRequest
from broker.producers.awaited_sends import AwaitedSends
from broker.producers.entry_size import check_entry_size
from vela.wire.entry import OutgoingMessage, encode_single

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.doors.ports import ProducerPort, PublishPort
    from broker.producers.requests import ProducerRequest

__all__ = ["RestSends"]

RECEIPT_TIMEOUT_S: Final = 30.0


class RestSends(AwaitedSends):
    """Publishes to one topic or partition. Call `open`, then `publish` for each message, then `close`."""

    def __init__(self, broker: PublishPort, producer_request: ProducerRequest) -> None:
        super().__init__()
        self._broker = broker
        self._request = producer_request
        self._producer: ProducerPort | None = None
        self._next_sequence_id = 0

    async def open(self, identity: ClientIdentity) -> bytes:
        """Open the producer and return its schema version, or b"" if there is no schema. Raises BrokerError."""
        self._producer = await self._broker.open_producer(self._request, identity, self)
        self._next_sequence_id = self._producer.last_sequence_id + 1
        return self._producer.schema_version

    async def publish(
        self,
        message: OutgoingMessage,
        *,
        sequence_id: int | None,
        publish_time_ms: int,
        deliver_at_ms: int,
        schema_version: bytes,
    ) -> Receipt:
        """Store one message and wait for its receipt.

        Messages are stored in the order of the calls. If `sequence_id` is None, the message gets the next sequence
        id. Raises SendOutcomeUnknown if there is no receipt, and another BrokerError if the message is not stored.
        """
        producer = self._producer
        if producer is None:
            raise ServiceNotReady(
                f"the broker closed {self._request.topic} before it took the message: send again"
            )
        setting_bytes = self._broker.settings.max_message_bytes
        limit_bytes = min(setting_bytes, producer.max_message_bytes or setting_bytes)
        if len(message.payload) > limit_bytes:
            refused = MessageTooLarge(
                f"the payload has {len(message.payload)} bytes, the limit is {limit_bytes}"
            )
            producer.refused(refused)
            raise refused
        sequence_id = self._next_sequence_id if sequence_id is None else sequence_id
        self._next_sequence_id = sequence_id + 1
        data = encode_single(
            producer_name=producer.name,
            sequence_id=sequence_id,
            publish_time_ms=publish_time_ms,
            payload=message.payload,
            properties=message.properties,
            key=message.key,
            event_time_ms=message.event_time_ms,
            deliver_at_ms=deliver_at_ms or None,
            schema_version=schema_version,
        )
        try:
            check_entry_size(len(data), max_message_bytes=setting_bytes)
        except MessageTooLarge as error:
            producer.refused(error)
            raise
        answer = self.expect(sequence_id)
        slot = None if message.key is None else slot_of_key(message.key.encode())
        producer.send(SendRequest(sequence_id, 0, 1, 0, deliver_at_ms, slot, data))
        try:
            async with asyncio.timeout(RECEIPT_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise SendOutcomeUnknown(
                f"no receipt within {RECEIPT_TIMEOUT_S:g} s: the message may still be stored"
            ) from None

    def close(self) -> None:
        """Detach the producer. The broker still stores the messages that were sent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.detach()

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """Fail every send that has no receipt yet."""
        self._producer = None
        why = "" if error is None else f" ({error})"
        self.give_up(f"the broker closed {self._request.topic}{why}: the message may be stored")

    async def is_alive(self) -> bool:
        """Return whether this request still uses the producer."""
        return self._producer is not None
