"""The producers of one binary connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.entry import FLAG_CHUNK
from broker.core.errors import (
    BrokerError,
    ChecksumFailed,
    MessageTooLarge,
    NotAllowed,
    ServiceNotReady,
    TooManyProducers,
    TopicTerminated,
)
from broker.core.hash_slots import slot_of_key
from broker.doors.binary.requests import producer_request
from broker.doors.entry_facts import check_chunk, entry_flags
from broker.doors.server_errors import server_error
from broker.log.sends import Receipt, SendRequest
from broker.producers.entry_size import check_entry_size
from broker.producers.key_hash import entry_slot
from vela.wire.binary.enums import ServerError
from vela.wire.checksum import MAGIC
from vela.wire.entry import PlainHead, checksum_ok, parse_header, plain_head, with_checksum
from vela.wire.errors import LocalProtocolError, MetadataCorrupt

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.doors.binary.peer import Peer
    from broker.doors.binary.request_runner import RequestRunner
    from broker.doors.binary.wire import events
    from broker.doors.ports import ProducerPort, PublishPort

__all__ = ["ProducerSlot", "ProducerTable"]

CLOSED_PRODUCER_MEMORY_S: Final = 30.0  # SENDs to a closed producer are ignored for this long.
CLOSED_PRODUCERS_REMEMBERED: Final = 10_000


class ProducerTable:
    """Handles the producer commands of one connection."""

    def __init__(self, broker: PublishPort, peer: Peer, requests: RequestRunner) -> None:
        self._broker = broker
        self._peer = peer
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._slots: dict[int, ProducerSlot] = {}
        self._closed: dict[int, float] = {}

    def lost(self) -> None:
        """Detach every producer. The broker still stores accepted sends."""
        slots = list(self._slots.values())
        self._slots.clear()
        for slot in slots:
            slot.is_closed = True
            if slot.producer is not None:
                slot.producer.detach()

    def on_send(self, event: events.Send) -> None:
        """Publish an entry. A SEND for an unknown producer closes the connection.

        A SEND for a recently closed producer is ignored, because the client may not know of the close yet.
        """
        slot = self._slots.get(event.producer_id)
        if slot is not None and slot.producer is not None:
            slot.send(event)
        elif not self._was_just_closed(event.producer_id):
            self._peer.fail(
                ServerError.METADATA_ERROR, f"SEND for producer {event.producer_id}, which is not open here"
            )

    def _was_just_closed(self, producer_id: int) -> bool:
        until = self._closed.get(producer_id)
        return until is not None and self._loop.time() < until

    def on_open_producer(self, event: events.OpenProducer) -> None:
        """Open a producer."""
        known = self._slots.get(event.producer_id)
        if known is not None and known.producer is not None and known.epoch < event.epoch:
            # The client has given up the old producer and will repeat all unanswered sends.
            known.producer.detach()
            known.forget_pending()
            self._forget(known)
            known = None
        if known is None:
            most = self._broker.settings.max_producers_per_connection
            if most and len(self._slots) >= most:
                self._refuse_another(event, most)
                return
            slot = self._slots[event.producer_id] = ProducerSlot(
                self._peer, event, self._broker.settings, on_closed=self._closed_by_broker
            )
            self._requests.run(
                event, self._open(slot, event), lambda error: self._refused(slot, event, error)
            )
        elif known.producer is None:
            busy = ServiceNotReady(f"producer {event.producer_id} is still being opened; try again")
            self._requests.refusal(event.request_id)(busy)
        else:
            known.request_id = event.request_id
            self._peer.engine.send_producer_success(
                event.request_id,
                name=known.producer.name,
                topic_epoch=known.producer.topic_epoch,
                ready=known.producer.is_ready,
            )

    def _refuse_another(self, event: events.OpenProducer, most: int) -> None:
        setting = "VELA_MAX_PRODUCERS_PER_CONNECTION"
        self._broker.connections.reached(setting, "refused another producer", str(self._peer))
        error = TooManyProducers(
            f"the connection has {most} producers, the most that {setting} allows: close some, or use more connections"
        )
        self._requests.count_refusal(event, str(error))
        self._requests.refusal(event.request_id)(error)

    async def _open(self, slot: ProducerSlot, event: events.OpenProducer) -> None:
        request = producer_request(event, on_ready=slot.on_ready, on_throttled=self._peer.gate.throttled)
        producer = await self._broker.open_producer(request, self._peer.identity, slot)
        if slot.is_closed:
            producer.detach()
            return
        slot.producer = producer
        self._closed.pop(slot.producer_id, None)
        slot.answer_open(producer)

    def _refused(self, slot: ProducerSlot, event: events.OpenProducer, error: BrokerError) -> None:
        if self._slots.get(slot.producer_id) is slot:
            del self._slots[slot.producer_id]
        if not slot.is_closed:
            self._requests.refusal(event.request_id)(error)

    def on_close_producer(self, event: events.CloseProducer) -> None:
        """Close a producer after its sends are answered."""
        slot = self._slots.get(event.producer_id)
        if slot is None or slot.producer is None:
            if slot is not None:
                slot.is_closed = True
                del self._slots[event.producer_id]
            self._peer.engine.send_success(event.request_id)
        else:
            self._requests.run(event, self._close(slot, event), self._requests.refusal(event.request_id))

    async def _close(self, slot: ProducerSlot, event: events.CloseProducer) -> None:
        async with slot.turn:
            if slot.producer is not None:
                await slot.producer.close()
            self._forget(slot)
            self._peer.engine.send_success(event.request_id)

    def _closed_by_broker(self, slot: ProducerSlot, error: BrokerError | None) -> None:
        if self._slots.get(slot.producer_id) is slot:
            self._forget(slot)
            try:
                if slot.is_waiting:
                    reason = error or ServiceNotReady("the topic is moving; open the producer again")
                    self._requests.refusal(slot.request_id)(reason)
                else:
                    self._peer.engine.send_close_producer(slot.producer_id)
            except LocalProtocolError as failure:
                self._peer.close(str(failure))
            self._peer.written()

    def _forget(self, slot: ProducerSlot) -> None:
        slot.is_closed = True
        if self._slots.get(slot.producer_id) is slot:
            del self._slots[slot.producer_id]
            while len(self._closed) >= CLOSED_PRODUCERS_REMEMBERED:
                del self._closed[next(iter(self._closed))]
            self._closed[slot.producer_id] = self._loop.time() + CLOSED_PRODUCER_MEMORY_S


class _WaitingRefusal(NamedTuple):
    after: int  # Write the refusal when `ProducerSlot._answered` has reached this number
    sequence_id: int
    error: BrokerError


class ProducerSlot:
    """A producer of one client. Implements `ProducerSink`.

    A refusal waits until all earlier sends are answered. Clients close the connection if an answer comes too early.
    """

    def __init__(
        self,
        peer: Peer,
        event: events.OpenProducer,
        settings: BrokerSettings,
        *,
        on_closed: Callable[[ProducerSlot, BrokerError | None], None],
    ) -> None:
        self.producer_id = event.producer_id
        self.request_id = event.request_id
        self.epoch = event.epoch
        self.producer: ProducerPort | None = None  # None while the producer is being opened
        self.turn = asyncio.Lock()  # A repeated CLOSE_PRODUCER waits for the first one.
        self.is_closed = False
        self.is_waiting = False  # Whether the producer waits for exclusive access
        self._peer = peer
        self._max_message_bytes = settings.max_message_bytes
        self._max_uncompressed_bytes = settings.max_uncompressed_bytes
        self._on_closed = on_closed
        self._queued = 0
        self._answered = 0
        self._unanswered_bytes = 0
        self._refusals: deque[_WaitingRefusal] = deque()
        self._passing: SendRequest | None = None

    def send(self, event: events.Send) -> None:
        """Pass an entry to the broker, or refuse it. Raises LookupError if the producer is not open yet."""
        producer = self.producer
        if producer is None:
            raise LookupError(self.producer_id)
        try:
            request = self._request(event, producer)
        except BrokerError as error:
            producer.refused(error)
            self._refuse(_answered_as(event.sequence_id, event.highest_sequence_id), error)
            return
        size_bytes = len(request.data)
        self._queued += 1
        self._unanswered_bytes += size_bytes
        self._peer.gate.send_queued(size_bytes)
        self._passing = request
        producer.send(request)
        self._passing = None

    def _request(self, event: events.Send, producer: ProducerPort) -> SendRequest:
        if event.in_transaction:
            raise NotAllowed("transactions are not available; send without one")
        entry = event.entry_block
        if entry[:2] != MAGIC:
            entry = with_checksum(entry)
        elif not checksum_ok(entry):
            raise ChecksumFailed("the entry's CRC32C does not match its bytes; send it again")
        highest = event.highest_sequence_id
        if highest is None or highest < event.sequence_id:
            highest = 0
        plain = plain_head(entry)
        if plain is not None and self._allows(plain, len(entry) - plain.payload_offset, producer):
            slot = None if plain.key is None else slot_of_key(plain.key)
            return SendRequest(event.sequence_id, highest, 1, 0, 0, slot, entry)
        try:
            header = parse_header(entry)
        except MetadataCorrupt as error:
            raise ChecksumFailed(f"the entry is damaged: {error}") from None
        payload_bytes = len(entry) - header.payload_offset
        if payload_bytes > self._max_message_bytes:
            raise MessageTooLarge(
                f"payload of {payload_bytes} bytes, the limit is {self._max_message_bytes}"
                " (VELA_MAX_MESSAGE_BYTES)"
            )
        check_entry_size(len(entry), max_message_bytes=self._max_message_bytes)
        if header.num_chunks > 1:
            check_chunk(header)
        elif header.uncompressed_size > self._max_uncompressed_bytes:
            raise MessageTooLarge(  # Consumers would silently discard the message.
                f"a payload of {header.uncompressed_size} bytes before compression, the limit is"
                f" {self._max_uncompressed_bytes} (VELA_MAX_UNCOMPRESSED_BYTES)"
            )
        flags = entry_flags(header)
        if payload_bytes > (producer.max_message_bytes or payload_bytes) and not flags & FLAG_CHUNK:
            raise MessageTooLarge(
                f"payload of {payload_bytes} bytes, the topic's limit is {producer.max_message_bytes}"
                " (policy max_message_bytes)"
            )
        return SendRequest(
            event.sequence_id,
            highest,
            header.messages,
            flags,
            header.deliver_at_ms if header.deliver_at_ms is not None and header.deliver_at_ms > 0 else 0,
            entry_slot(header),
            entry,
        )

    def _allows(self, plain: PlainHead, payload_bytes: int, producer: ProducerPort) -> bool:
        return (
            payload_bytes <= self._max_message_bytes
            and plain.uncompressed_size <= self._max_uncompressed_bytes
            and payload_bytes <= (producer.max_message_bytes or payload_bytes)
        )

    def _refuse(self, sequence_id: int, error: BrokerError) -> None:
        if self._answered == self._queued:
            self._write_refusal(sequence_id, error)
        else:
            # Count a waiting refusal as a send. Otherwise, refusals could fill up memory while the database is down.
            self._peer.gate.send_queued(0)
            self._refusals.append(_WaitingRefusal(self._queued, sequence_id, error))

    def _write_refusal(self, sequence_id: int, error: BrokerError) -> None:
        self._peer.engine.send_send_error(self.producer_id, sequence_id, server_error(error), str(error))
        self._peer.written()

    def _send_due_refusals(self) -> None:
        while self._refusals and self._refusals[0].after <= self._answered:
            refusal = self._refusals.popleft()
            self._write_refusal(refusal.sequence_id, refusal.error)
            self._peer.gate.sends_answered(1, 0)

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Send receipts, and the refusals that waited for them."""
        if not self._refusals:
            self._peer.engine.send_receipts(self.producer_id, receipts)
            self._answered += len(receipts)
        else:
            for receipt in receipts:
                self._peer.engine.send_receipts(self.producer_id, (receipt,))
                self._answered += 1
                self._send_due_refusals()
        size_bytes = sum([each.size_bytes for each in receipts])
        self._unanswered_bytes -= size_bytes
        self._peer.written()
        self._peer.gate.sends_answered(len(receipts), size_bytes)

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Refuse a send that was not stored.

        If the topic is terminated, close the producer instead. After a SEND_ERROR, Go's client would leave its
        other sends pending.
        """
        if self.is_closed:
            return
        if isinstance(error, TopicTerminated):
            self.on_producer_closed(error)
            return
        size_bytes = len(request.data)
        self._unanswered_bytes -= size_bytes
        sequence_id = _answered_as(request.sequence_id, request.highest_sequence_id)
        if request is self._passing:  # `send` is still running, and earlier sends may be unanswered.
            self._queued -= 1
            self._refuse(sequence_id, error)
        else:
            self._answered += 1
            self._write_refusal(sequence_id, error)
            self._send_due_refusals()
        self._peer.gate.sends_answered(1, size_bytes)

    def answer_open(self, producer: ProducerPort) -> None:
        """Send PRODUCER_SUCCESS."""
        self.is_waiting = not producer.is_ready
        self._peer.engine.send_producer_success(
            self.request_id,
            name=producer.name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=producer.schema_version,
            topic_epoch=producer.topic_epoch,
            ready=producer.is_ready,
        )

    def on_ready(self) -> None:
        """Tell the client that its waiting producer now has exclusive access."""
        if self.producer is not None and not self.is_closed:
            self.answer_open(self.producer)
            self._peer.written()

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """Tell the client that the producer is closed."""
        if self.producer is None:  # The request to open the producer will be refused.
            return
        self.is_closed = True
        self._on_closed(self, error)
        self.forget_pending()

    def forget_pending(self) -> None:
        """Stop counting the unanswered sends against the connection's limits."""
        pending = self._queued - self._answered + len(self._refusals)
        if pending:
            self._peer.gate.sends_answered(pending, self._unanswered_bytes)
        self._answered, self._unanswered_bytes = self._queued, 0
        self._refusals.clear()

    async def is_alive(self) -> bool:
        """Return whether the client answers a ping. Return False at once if the producer is closed."""
        return not self.is_closed and await self._peer.is_alive()


def _answered_as(sequence_id: int, highest: int | None) -> int:
    """Return the sequence id of a SEND_ERROR.

    Java's client expects the id of the last message in the batch. The C++ and Go clients expect the id of the first
    message, and never send `highest`.
    """
    return sequence_id if highest is None else max(sequence_id, highest)
