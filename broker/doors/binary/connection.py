"""One client of Pulsar's binary protocol, over TCP or inside WebSocket messages (protocol 3).

Bytes come from a `ByteChannel`'s owner through `receive`; commands become calls on the broker, and what the broker
has for the client goes out through the sinks. Commands that take time run as tasks, one at a time for each producer
or consumer; SEND, FLOW and ACK never do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from broker.core.client_identity import ClientIdentity
from broker.core.errors import BrokerError, ServiceNotReady
from broker.doors.binary.consumer_table import ConsumerTable
from broker.doors.binary.keep_alive import KeepAlive, Timer
from broker.doors.binary.lookup import LookupAnswers
from broker.doors.binary.producer import ProducerSlot
from broker.doors.binary.repeated_refusals import RepeatedRefusals
from broker.doors.binary.requests import producer_request
from broker.doors.binary.schema_answers import SchemaAnswers
from broker.doors.read_gate import ReadGate
from broker.doors.server_errors import server_error
from vela.wire.binary import events
from vela.wire.binary.enums import ServerError
from vela.wire.binary.server import ConnectionState, ServerEngine
from vela.wire.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from broker.doors.binary.channel import ByteChannel
    from broker.doors.ports import BrokerPort, ProducerPort

__all__ = ["SERVER_VERSION", "BinaryConnection"]

log = logging.getLogger(__name__)

SERVER_VERSION: Final = "Vela 0.1.0"
CLOSED_PRODUCER_MEMORY_S: Final = 30.0  # SENDs under way to a producer the broker closed are dropped so long
CLOSED_PRODUCERS_REMEMBERED: Final = 10_000
MAX_UNREAD_ANSWER_BYTES: Final = 4 * 1024 * 1024
JOIN_BYTES: Final = 256 * 1024  # written at once even while more commands of the same piece are being handled
MAX_GREETING_BYTES: Final = (
    64 * 1024
)  # a CONNECT with its credentials is smaller; a larger frame fails by itself
TLS_HANDSHAKE: Final = b"\x16\x03"  # how every version of TLS begins; no frame is that long
PIECE_BYTES: Final = 256 * 1024  # commands are decoded from so many bytes at a time


class BinaryConnection:
    """Created when the peer connects; its owner calls `receive`, `writable_again` and `lost`."""

    def __init__(
        self,
        broker: BrokerPort,
        channel: ByteChannel,
        *,
        address: str,
        face: str,
        call_later: Timer | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.broker = broker
        self.max_message_bytes = broker.settings.max_message_bytes
        self.max_uncompressed_bytes = broker.settings.max_uncompressed_bytes
        self.engine = ServerEngine(server_version=SERVER_VERSION, max_message_bytes=self.max_message_bytes)
        self.gate = ReadGate(pause=channel.pause_reading, resume=self._resume_reading)
        self.is_lost = False
        self._channel = channel
        self.address = address
        self._face = face
        self._loop = loop
        self.identity = ClientIdentity(address=address, client_version="", face=face)
        self._producers: dict[int, ProducerSlot] = {}
        self.consumers = ConsumerTable(self)
        self._closed_producers: dict[int, float] = {}  # producer id -> loop time when forgotten
        self._unread: deque[bytes] = deque()  # pieces that came while the gate was closed
        self._events: deque[events.Event] = deque()  # decoded, not handled yet
        self._greeting: bytearray | None = (
            bytearray()
        )  # bytes of the first frame so far; None when it is past
        self._is_handling = False
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals = RepeatedRefusals(self._described, loop.time)
        self._lookups = LookupAnswers(self)
        self._schemas = SchemaAnswers(self)
        self._keep_alive = KeepAlive(
            call_later=call_later or loop.call_later,
            ping=self._ping,
            give_up=self.close,
            is_established=lambda: self.engine.state is ConnectionState.CONNECTED,
            is_heard=lambda: self.gate.is_open,
        )
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            events.Send: self._on_send,
            events.Ack: self.consumers.on_ack,
            events.Flow: self.consumers.on_flow,
            events.Redeliver: self.consumers.on_redeliver,
            events.Connect: self._on_connect,
            events.AuthResponse: self._ignore,
            events.Ping: self._on_ping,
            events.Pong: self._ignore,
            events.PartitionMetadata: self._lookups.on_partition_metadata,
            events.Lookup: self._lookups.on_lookup,
            events.GetTopicsOfNamespace: self._lookups.on_topics_of_namespace,
            events.OpenProducer: self._on_open_producer,
            events.CloseProducer: self._on_close_producer,
            events.Subscribe: self.consumers.on_subscribe,
            events.Unsubscribe: self.consumers.on_unsubscribe,
            events.Seek: self.consumers.on_seek,
            events.CloseConsumer: self.consumers.on_close_consumer,
            events.GetLastMessageId: self.consumers.on_get_last_message_id,
            events.ConsumerStats: self.consumers.on_consumer_stats,
            events.GetSchema: self._schemas.on_get_schema,
            events.GetOrCreateSchema: self._schemas.on_get_or_create_schema,
            events.Unsupported: self._on_unsupported,
        }

    # -- bytes in ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes of the peer, cut anyhow. Raises nothing: whatever is wrong with them closes the connection."""
        if self._is_closing:
            return
        self._keep_alive.heard()
        if len(data) <= PIECE_BYTES:
            self._unread.append(data)
        else:
            self._unread.extend(data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
        self._handle_unread()

    def _handle_unread(self) -> None:
        if self._is_handling:
            return
        self._is_handling = True
        failure: RemoteProtocolError | None = None
        try:
            while self.gate.is_open and failure is None and not self._is_closing:
                if not self._events:
                    if not self._unread:
                        break
                    failure = self._decode(self._unread.popleft())
                self._handle_events()
        finally:
            self._is_handling = False
        if failure is not None:
            self.fail(ServerError.METADATA_ERROR, str(failure))
        self.written()

    def _greeting_in(self, piece: bytes) -> bytes:
        """The first frame alone, or b"" until it is whole: what comes after it in one piece is only legal once it has
        been answered, and a client that does not wait for CONNECTED is served all the same.

        Raises RemoteProtocolError for TLS.
        """
        greeting = self._greeting or bytearray()
        greeting += piece
        if greeting.startswith(TLS_HANDSHAKE):
            raise RemoteProtocolError(
                "the client began with TLS, which this port does not speak: connect with pulsar://, or to the"
                " proxy that ends TLS"
            )
        end = 4 + int.from_bytes(greeting[:4], "big")
        if len(greeting) < 4 or (len(greeting) < end and end <= MAX_GREETING_BYTES):
            self._greeting = greeting
            return b""
        self._greeting = None
        end = min(end, MAX_GREETING_BYTES)
        if len(greeting) > end:
            self._unread.appendleft(bytes(greeting[end:]))
        return bytes(greeting[:end])

    def _decode(self, piece: bytes) -> RemoteProtocolError | None:
        try:
            if self._greeting is not None:
                piece = self._greeting_in(piece)
            self._events.extend(self.engine.receive(piece))
        except RemoteProtocolError as error:
            self._events.extend(error.events)  # type: ignore[arg-type]  # the engine's are Events
            return error
        return None

    def _handle_events(self) -> None:
        handlers, waiting, gate = self._handlers, self._events, self.gate
        while waiting and gate.is_open and not self._is_closing:
            event = waiting.popleft()
            try:
                handlers[type(event)](event)
            except BrokerError as error:
                self.fail(server_error(error), str(error))
            except Exception:
                # A fault of the broker's, not of the peer's: it loses its connection, nobody else anything.
                log.exception("%s: handling %s failed", self.address, type(event).__name__)
                self.fail(ServerError.UNKNOWN_ERROR, "internal error; the broker's log says which")

    def _resume_reading(self) -> None:
        # Not here and now: the gate opens inside a commit's callback.
        self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self.is_lost or not self.gate.is_open:
            return
        self._handle_unread()
        if self.gate.is_open and not self._is_closing:
            self._channel.resume_reading()

    # -- bytes out -----------------------------------------------------------------------------------------------

    def written(self) -> None:
        """Something was given to the engine: send it now, or with the rest of what is being handled."""
        engine = self.engine
        if self._is_handling and engine.pending_bytes < JOIN_BYTES:
            return
        if engine.pending_bytes:
            buffers = engine.data_to_send()
            if not self.is_lost:
                self._channel.write(buffers)
                if self._channel.unsent_bytes > MAX_UNREAD_ANSWER_BYTES:
                    self.gate.output_stuck(stuck=True)

    def is_writable(self) -> bool:
        """Whether entries may be written to this peer."""
        return not self._is_closing and self._channel.is_writable()

    def writable_again(self) -> None:
        """The channel's peer has taken most of what was written."""
        self.gate.output_stuck(stuck=False)
        self.consumers.writable_again()

    def _ping(self) -> None:
        self.engine.send_ping()
        self.written()

    async def is_alive(self) -> bool:
        """Ask the peer, 5 s at most; a silent one loses its connection."""
        return not self._is_closing and await self._keep_alive.probe()

    # -- the end -------------------------------------------------------------------------------------------------

    def fail(self, code: ServerError, message: str) -> None:
        """The peer broke the protocol: say why, then close."""
        if not self._is_closing:
            self.engine.refuse_connection(code, message)
            self.close(message)

    def close(self, reason: str) -> None:
        """Send what is ready and close. Logged in one line."""
        if self._is_closing:
            return
        log.info("%s (%s): closing the connection: %s", self.address, self._face, reason)
        self._is_closing = True
        self._is_handling = False
        self.written()
        self._channel.close()

    def lost(self) -> None:
        """The connection is gone: what its consumers held is delivered to others. Safe to repeat."""
        if self.is_lost:
            return
        self.is_lost = self._is_closing = True
        self._keep_alive.stop()
        self._refusals.ended()
        self._unread.clear()
        self._events.clear()
        producers = list(self._producers.values())
        self._producers.clear()
        for slot in producers:
            slot.is_closed = True
            if slot.producer is not None:
                slot.producer.detach()
        self.consumers.lost()

    # -- requests that take time ---------------------------------------------------------------------------------

    def run(
        self, event: events.Event, work: Coroutine[Any, Any, None], refuse: Callable[[BrokerError], None]
    ) -> None:
        """Answer the request `event` from a task; `refuse` is told why it cannot be served."""
        self.gate.request_begun()
        task = self._loop.create_task(self._run(event, work, refuse))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(
        self, event: events.Event, work: Coroutine[Any, Any, None], refuse: Callable[[BrokerError], None]
    ) -> None:
        try:
            await work
        except BrokerError as error:
            self.count_refusal(event, str(error))
            refuse(error)
        except Exception:
            log.exception("%s: a request failed", self.address)
            refuse(BrokerError("internal error; the broker's log says which"))
        finally:
            self.written()
            self.gate.request_done()

    def refusal(self, request_id: int) -> Callable[[BrokerError], None]:
        """What answers a request with ERROR."""
        return lambda error: self.engine.send_error(request_id, server_error(error), str(error))

    def count_refusal(self, event: events.Event, why: str) -> None:
        """Every refused request is counted; the log names a client that repeats one."""
        request = event.name if isinstance(event, events.Unsupported) else type(event).__name__
        self.broker.refused_requests[request] += 1
        self._refusals.add(request, getattr(event, "topic", ""), why)

    def _described(self) -> str:
        return f"{self.address} ({self._face}, client {self.identity.client_version[:80]!r})"

    # -- connection ----------------------------------------------------------------------------------------------

    def _on_connect(self, event: events.Connect) -> None:
        ready, why = self.broker.is_ready()
        if not ready:
            self.fail(ServerError.SERVICE_NOT_READY, why)
            return
        self.identity = ClientIdentity(
            address=self.address,
            client_version=event.client_version,
            face=self._face,
            protocol_version=event.protocol_version,
        )
        self.engine.send_connected()

    def _on_ping(self, _: events.Ping) -> None:
        self.engine.send_pong()

    def _ignore(self, _: events.Event) -> None:
        return

    def _on_unsupported(self, event: events.Unsupported) -> None:
        why = f"{event.name} is not available"
        self.count_refusal(event, why)
        self.engine.send_unsupported(event, why)

    # -- producers -----------------------------------------------------------------------------------------------

    def _on_send(self, event: events.Send) -> None:
        slot = self._producers.get(event.producer_id)
        if slot is not None and slot.producer is not None:
            slot.send(event)
        elif not self._was_just_closed(event.producer_id):
            self.fail(
                ServerError.METADATA_ERROR, f"SEND for producer {event.producer_id}, which is not open here"
            )

    def _was_just_closed(self, producer_id: int) -> bool:
        until = self._closed_producers.get(producer_id)
        return until is not None and self._loop.time() < until

    def _on_open_producer(self, event: events.OpenProducer) -> None:
        known = self._producers.get(event.producer_id)
        if known is not None and known.producer is not None and known.epoch < event.epoch:
            # The client gave up on the old one (protocol 3.5); what it has in flight is sent again.
            known.producer.detach()
            known.forget_pending()
            self._forget_producer(known)
            known = None
        if known is None:
            slot = self._producers[event.producer_id] = ProducerSlot(self, event)
            self.run(
                event,
                self._open_producer(slot, event),
                lambda error: self._producer_refused(slot, event, error),
            )
        elif known.producer is None:
            busy = ServiceNotReady(f"producer {event.producer_id} is still being opened; try again")
            self.refusal(event.request_id)(busy)
        else:
            known.request_id = event.request_id
            self.engine.send_producer_success(
                event.request_id,
                name=known.producer.name,
                topic_epoch=known.producer.topic_epoch,
                ready=known.producer.is_ready,
            )

    async def _open_producer(self, slot: ProducerSlot, event: events.OpenProducer) -> None:
        request = producer_request(event, on_ready=slot.on_ready, on_throttled=self.gate.throttled)
        producer = await self.broker.open_producer(request, self.identity, slot)
        if slot.is_closed:
            producer.detach()
            return
        slot.producer = producer
        self._closed_producers.pop(slot.producer_id, None)
        self.answer_open(slot, producer)

    def answer_open(self, slot: ProducerSlot, producer: ProducerPort) -> None:
        """PRODUCER_SUCCESS: opened, or queued for exclusive access."""
        slot.is_waiting = not producer.is_ready
        self.engine.send_producer_success(
            slot.request_id,
            name=producer.name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=producer.schema_version,
            topic_epoch=producer.topic_epoch,
            ready=producer.is_ready,
        )

    def _producer_refused(self, slot: ProducerSlot, event: events.OpenProducer, error: BrokerError) -> None:
        if self._producers.get(slot.producer_id) is slot:
            del self._producers[slot.producer_id]
        if not slot.is_closed:
            self.refusal(event.request_id)(error)

    def _on_close_producer(self, event: events.CloseProducer) -> None:
        slot = self._producers.get(event.producer_id)
        if slot is None or slot.producer is None:
            if slot is not None:
                slot.is_closed = True
                del self._producers[event.producer_id]
            self.engine.send_success(event.request_id)
        else:
            self.run(event, self._close_producer(slot, event), self.refusal(event.request_id))

    async def _close_producer(self, slot: ProducerSlot, event: events.CloseProducer) -> None:
        async with slot.turn:
            if slot.producer is not None:
                await slot.producer.close()
            self._forget_producer(slot)
            self.engine.send_success(event.request_id)

    def producer_closed_by_broker(self, slot: ProducerSlot, error: BrokerError | None) -> None:
        """Tell the client; it looks the topic up and opens the producer again, unless it was waiting still."""
        if self._producers.get(slot.producer_id) is slot:
            self._forget_producer(slot)
            try:
                if slot.is_waiting:
                    reason = error or ServiceNotReady("the topic is moving; open the producer again")
                    self.refusal(slot.request_id)(reason)
                else:
                    self.engine.send_close_producer(slot.producer_id)
            except LocalProtocolError as failure:
                self.close(str(failure))
            self.written()

    def _forget_producer(self, slot: ProducerSlot) -> None:
        slot.is_closed = True
        if self._producers.get(slot.producer_id) is slot:
            del self._producers[slot.producer_id]
            while len(self._closed_producers) >= CLOSED_PRODUCERS_REMEMBERED:
                del self._closed_producers[next(iter(self._closed_producers))]
            self._closed_producers[slot.producer_id] = self._loop.time() + CLOSED_PRODUCER_MEMORY_S
