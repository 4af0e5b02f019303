"""The producer that the broker uses for its own messages, such as dead letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from broker.core.client_identity import INTERNAL_FACE, ClientIdentity
from broker.core.entry import FLAG_BATCH, FLAG_ORDERING_KEY
from broker.core.errors import BrokerError, MessageTooLarge, PersistenceFailed
from broker.core.topic_name import TopicName
from broker.log.sends import Receipt, SendRequest
from broker.producers.awaited_sends import AwaitedSends
from broker.producers.entry_size import check_entry_size
from broker.producers.requests import ProducerRequest
from vela.wire.entry import Compression, OutgoingMessage, encode_single

if TYPE_CHECKING:
    from broker.core.schemas.schema import SchemaDefinition
    from broker.producers.requests import ProducerSink

__all__ = ["InternalProducer", "OpenedProducer", "ProducerOpener"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_PENDING: Final = 500  # Limit on entries that wait for a receipt
REOPEN_S: Final = 30.0  # How long to retry if a producer does not open
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0
_IDENTITY = ClientIdentity(address="broker", client_version="", face=INTERNAL_FACE)


class OpenedProducer(Protocol):
    """The part of a producer that `InternalProducer` uses."""

    @property
    def last_sequence_id(self) -> int: ...
    def send(self, request: SendRequest) -> None: ...
    async def close(self) -> None: ...
    def detach(self) -> None: ...


class ProducerOpener(Protocol):
    """The part of the broker that opens producers."""

    async def partition_count(self, topic: TopicName, *, create: bool) -> int: ...
    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> OpenedProducer: ...


class InternalProducer:
    """Sends to a topic or its partitions. Call `open` to create a producer."""

    def __init__(self, lanes: Sequence[_Lane], *, name: str, max_pending: int) -> None:
        self.name = name
        self._lanes = lanes
        self._turn = 0
        self._room = asyncio.Semaphore(max_pending)

    @classmethod
    async def open(
        cls,
        broker: ProducerOpener,
        topic_name: TopicName | str,
        *,
        name: str,
        create_topic: bool = True,
        initial_subscription: str | None = None,
        max_pending: int = MAX_PENDING,
        schema: SchemaDefinition | None = None,
        reopen_s: float = REOPEN_S,
    ) -> InternalProducer:
        """Open a producer on the topic. Safe to cancel.

        `name` must be unique on the topic. Tries again for `reopen_s` seconds after a retriable error.
        Raises BrokerError.
        """
        topic = TopicName.parse(topic_name) if isinstance(topic_name, str) else topic_name
        partitions = await _repeated(
            lambda: broker.partition_count(topic, create=create_topic), for_s=reopen_s
        )
        requests = [
            ProducerRequest(
                topic=each,
                name=name,
                create_topic=create_topic,
                initial_subscription=initial_subscription,
                schema=schema,
            )
            for each in [topic.with_partition(index) for index in range(partitions)] or [topic]
        ]
        lanes = [_Lane(broker, request, reopen_s) for request in requests]
        try:
            for lane in lanes:
                await lane.opened()
        except BaseException:
            for lane in lanes:
                lane.detach()
            raise
        return cls(lanes, name=name, max_pending=max_pending)

    async def send(
        self,
        data: bytes,
        *,
        messages: int = 1,
        flags: int = 0,
        key_hash: int | None = None,
        deliver_at_ms: int = 0,
    ) -> Receipt:
        """Append one entry and wait until it is durable. `data` must begin with the checksum's magic number.

        Raises SendOutcomeUnknown if the producer is closed before the topic answers. Any other BrokerError means that
        the entry is not stored. The entry of a cancelled send may still be stored.
        """
        async with self._room:
            return await self._lane(key_hash).send(
                lambda sequence_id: SendRequest(
                    sequence_id=sequence_id,
                    highest_sequence_id=sequence_id + messages - 1 if flags & FLAG_BATCH else 0,
                    messages=messages,
                    flags=flags,
                    deliver_at_ms=deliver_at_ms,
                    key_hash=key_hash,
                    data=data,
                )
            )

    async def publish(
        self,
        message: OutgoingMessage,
        *,
        publish_time_ms: int,
        max_message_bytes: int,
        key_hash: int | None = None,
        deliver_at_ms: int = 0,
        schema_version: bytes = b"",
    ) -> Receipt:
        """Encode one message and append it as one entry.

        Raises the errors of `send`. Raises MessageTooLarge if even the compressed message is too large.
        """

        def encoded(sequence_id: int, compression: Compression = Compression.NONE) -> bytes:
            return encode_single(
                producer_name=self.name,
                sequence_id=sequence_id,
                publish_time_ms=publish_time_ms,
                payload=message.payload,
                properties=message.properties,
                key=message.key,
                key_b64=message.key_b64,
                event_time_ms=message.event_time_ms,
                deliver_at_ms=deliver_at_ms or None,
                compression=compression,
                ordering_key=message.ordering_key,
                schema_version=schema_version,
                null_value=message.null_value,
            )

        def fitting(sequence_id: int) -> bytes:
            data = encoded(sequence_id)
            try:
                check_entry_size(len(data), max_message_bytes=max_message_bytes)
            except MessageTooLarge:
                data = encoded(sequence_id, Compression.LZ4)
                check_entry_size(len(data), max_message_bytes=max_message_bytes)
            return data

        async with self._room:
            return await self._lane(key_hash).send(
                lambda sequence_id: SendRequest(
                    sequence_id=sequence_id,
                    highest_sequence_id=0,
                    messages=1,
                    flags=0 if message.ordering_key is None else FLAG_ORDERING_KEY,
                    deliver_at_ms=deliver_at_ms,
                    key_hash=key_hash,
                    data=fitting(sequence_id),
                )
            )

    async def close(self) -> None:
        """Wait for the receipts, then detach. Safe to repeat."""
        for lane in self._lanes:
            await lane.close()

    def detach(self) -> None:
        """Detach at once. Sends without a receipt fail with SendOutcomeUnknown. Safe to repeat."""
        for lane in self._lanes:
            lane.detach()

    def _lane(self, key_hash: int | None) -> _Lane:
        if key_hash is not None:
            return self._lanes[key_hash % len(self._lanes)]
        self._turn = (self._turn + 1) % len(self._lanes)
        return self._lanes[self._turn]


async def _repeated(
    call: Callable[[], Awaitable[T]], *, for_s: float, is_over: Callable[[], bool] = lambda: False
) -> T:
    loop = asyncio.get_running_loop()
    until_s, wait_s = loop.time() + for_s, _FIRST_WAIT_S
    while True:
        try:
            return await call()
        except BrokerError as error:
            if not error.retriable or is_over() or loop.time() + wait_s > until_s:
                raise
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


class _Lane(AwaitedSends):
    """The producer of one topic or partition."""

    def __init__(self, broker: ProducerOpener, request: ProducerRequest, reopen_s: float) -> None:
        super().__init__()
        self._broker = broker
        self._request = request
        self._reopen_s = reopen_s
        self._producer: OpenedProducer | None = None
        self._opening = asyncio.Lock()
        self._open_error: BrokerError | None = None
        self._queued = 0  # Number of sends that wait for the producer to open
        self._next_sequence_id = 0
        self._is_closed = False

    async def opened(self) -> OpenedProducer:
        """Return the producer. Open it if necessary.

        If opening fails, every waiting caller gets the same error.
        """
        earlier = self._open_error
        async with self._opening:
            if self._producer is None:
                if self._open_error is not None and self._open_error is not earlier:
                    raise self._open_error
                producer = await self._open()
                if self._is_closed:
                    producer.detach()
                    raise self._refusal()
                self._producer = producer
                self._next_sequence_id = max(self._next_sequence_id, producer.last_sequence_id + 1)
            return self._producer

    async def send(self, request: Callable[[int], SendRequest]) -> Receipt:
        if self._is_closed:
            raise self._refusal()
        producer = self._producer
        if producer is None or self._queued:  # Do not overtake sends that wait for the producer
            self._queued += 1
            try:
                producer = await self.opened()
            finally:
                self._queued -= 1
        made = request(self._next_sequence_id)
        self._next_sequence_id += made.messages
        answer = self.expect(made.sequence_id)
        producer.send(made)
        return await answer

    async def close(self) -> None:
        self._is_closed = True
        if self._producer is not None:
            await self._producer.close()
        self.detach()

    def detach(self) -> None:
        self._is_closed = True
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.detach()
        self._give_up(None)

    async def _open(self) -> OpenedProducer:
        try:
            return await _repeated(
                lambda: self._broker.open_producer(self._request, _IDENTITY, self),
                for_s=self._reopen_s,
                is_over=lambda: self._is_closed,
            )
        except BrokerError as error:
            self._open_error = error
            raise

    def _refusal(self) -> BrokerError:
        return PersistenceFailed(
            f"the broker's own producer on {self._request.topic} is closed; open it again"
        )

    def _give_up(self, error: BrokerError | None) -> None:
        reason = "it was closed" if error is None else str(error)
        self.give_up(
            f"{self._request.topic} did not confirm an entry before {reason}: the entry may be stored"
        )

    def on_producer_closed(self, error: BrokerError | None) -> None:
        self._producer = None
        self._give_up(error)

    async def is_alive(self) -> bool:
        return not self._is_closed
