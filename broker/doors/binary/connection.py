"""One client of Pulsar's binary protocol, over TCP or inside WebSocket messages."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker.core.client_identity import ClientIdentity
from broker.core.errors import BrokerError
from broker.doors.binary.authentication import ConnectionAuthentication
from broker.doors.binary.consumers import ConsumerTable
from broker.doors.binary.lookup import LookupAnswers
from broker.doors.binary.peer import Peer
from broker.doors.binary.producers import ProducerTable
from broker.doors.binary.request_rate import RequestRate
from broker.doors.binary.request_runner import RequestRunner
from broker.doors.binary.schema_answers import SchemaAnswers
from broker.doors.binary.topic_watchers import TopicWatchers
from broker.doors.binary.wire import events
from broker.doors.binary.wire.engine import ServerEngine
from broker.doors.guard import GuardedBroker
from broker.doors.read_gate import ReadGate
from broker.doors.server_errors import server_error
from vela.version import __version__
from vela.wire.binary.enums import ServerError
from vela.wire.errors import FrameTooLarge, RemoteProtocolError

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.conf import BrokerSettings
    from broker.core.access.credentials import ClientCertificate
    from broker.doors.binary.link import ByteLink
    from broker.doors.ports import BrokerPort
    from broker.listening.loop_time import TimeShare

__all__ = ["BinaryConnection", "refusal"]

logger = logging.getLogger(__name__)

SERVER_VERSION: Final = f"Vela {__version__}"
# Limit on the first frame, whose sender has not authenticated yet.
MAX_GREETING_BYTES: Final = 64 * 1024
TLS_HANDSHAKE: Final = b"\x16\x03"
# A small number, because other connections wait while the broker decodes this many commands.
DECODED_AT_ONCE: Final = 32


class BinaryConnection:
    """A client's connection. Its owner calls `receive`, `writable_again` and `lost`."""

    def __init__(
        self,
        broker: BrokerPort,
        link: ByteLink,
        *,
        address: str,
        face: str,
        share: TimeShare,
        certificate: ClientCertificate | None = None,
        call_later: Timer | None = None,
    ) -> None:
        """`face` names the protocol in the log and the console, for example "binary"."""
        self._broker = broker
        self._link = link
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._engine = ServerEngine(
            server_version=SERVER_VERSION, max_message_bytes=broker.settings.max_message_bytes
        )
        self.gate = ReadGate(pause=link.pause_reading, resume=self._resume_reading)
        self.peer = Peer(
            self._engine,
            link,
            self.gate,
            address=address,
            face=face,
            certificate_name=certificate.name if certificate is not None else "",
            handshake_timeout_s=broker.settings.handshake_timeout_s,
            on_slow_handshake=lambda: broker.connections.reached(
                "VELA_HANDSHAKE_TIMEOUT_S", "closed, because it sent no CONNECT", address
            ),
            call_later=call_later or self._loop.call_later,
        )
        guard = GuardedBroker(broker)
        self._authentication = ConnectionAuthentication(
            broker,
            guard,
            self.peer,
            call_later=call_later or self._loop.call_later,
            certificate=certificate,
        )
        self._requests = RequestRunner(self.peer, broker.refused_requests, self._share)
        self._producers = ProducerTable(guard, self.peer, self._requests)
        self._consumers = ConsumerTable(guard, self.peer, self._requests)
        self._unread: deque[bytes] = deque()
        self._events: deque[events.Event] = deque()
        self._failure: RemoteProtocolError | None = None  # Error to report once `_events` is empty
        self._is_out_of_turn = False
        self._greeting: bytearray | None = bytearray()  # None once the first frame is complete
        lookups = LookupAnswers(guard, self._engine, self._requests)
        self._topic_watchers = TopicWatchers(guard, self.peer, self._requests)
        schemas = SchemaAnswers(guard, self._engine, self._requests)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            events.Send: self._producers.on_send,
            events.Ack: self._consumers.on_ack,
            events.Flow: self._consumers.on_flow,
            events.Redeliver: self._consumers.on_redeliver,
            events.Connect: self._on_connect,
            events.AuthResponse: self._authentication.on_auth_response,
            events.Ping: self._on_ping,
            events.Pong: self._ignore,
        }
        rate = RequestRate(broker, self.peer, call_later or self._loop.call_later)
        self._handlers |= {
            kind: rate.limited(handle)
            for kind, handle in (
                (events.PartitionMetadata, lookups.on_partition_metadata),
                (events.Lookup, lookups.on_lookup),
                (events.GetTopicsOfNamespace, lookups.on_topics_of_namespace),
                (events.WatchTopicList, self._topic_watchers.on_watch),
                (events.CloseTopicWatcher, self._topic_watchers.on_close),
                (events.OpenProducer, self._producers.on_open_producer),
                (events.CloseProducer, self._producers.on_close_producer),
                (events.Subscribe, self._consumers.on_subscribe),
                (events.Unsubscribe, self._consumers.on_unsubscribe),
                (events.Seek, self._consumers.on_seek),
                (events.CloseConsumer, self._consumers.on_close_consumer),
                (events.GetLastMessageId, self._consumers.on_get_last_message_id),
                (events.ConsumerStats, self._consumers.on_consumer_stats),
                (events.GetSchema, schemas.on_get_schema),
                (events.GetOrCreateSchema, schemas.on_get_or_create_schema),
                (events.Unsupported, self._on_unsupported),
            )
        }

    def receive(self, data: bytes) -> None:
        """Handle the next bytes from the peer. Close the connection if the bytes are invalid."""
        if self.peer.is_closing:
            return
        self.peer.heard()
        self._unread.append(data)
        self._handle_unread()
        if self._is_out_of_turn and (self._events or self._engine.has_more or len(self._unread) > 1):
            self._link.pause_reading()

    def _handle_unread(self) -> None:
        if self.peer.is_joining or not self.gate.is_open:
            return
        self._is_out_of_turn = not self._share.begins(self._continue)
        if self._is_out_of_turn:
            return
        self.peer.is_joining = True
        try:
            while self.gate.is_open and not self.peer.is_closing:
                if not self._events and not self._decode_more():
                    break
                if not self._handle_events():
                    self._is_out_of_turn = True
                    break
        finally:
            self.peer.is_joining = False
        if self._failure is not None and not self._events:
            self.peer.fail(ServerError.METADATA_ERROR, str(self._failure))
        self.peer.written()
        self._share.ends()

    def _greeting_in(self, piece: bytes) -> bytes:
        """Return the first frame, or empty bytes until it is complete."""
        greeting = self._greeting or bytearray()
        greeting += piece
        if greeting.startswith(TLS_HANDSHAKE):
            raise RemoteProtocolError(
                "the client began with TLS, which this port does not speak: connect with pulsar://, or with"
                " pulsar+ssl:// to the port for TLS (VELA_PULSAR_TLS_PORT) or a proxy that ends TLS"
            )
        end = 4 + int.from_bytes(greeting[:4], "big")
        if len(greeting) >= 4 and end > MAX_GREETING_BYTES:
            raise FrameTooLarge(
                f"the first frame announces {end - 4} bytes: it must be a CONNECT, with at most"
                f" {MAX_GREETING_BYTES - 4} bytes"
            )
        if len(greeting) < max(4, end):
            self._greeting = greeting
            return b""
        self._greeting = None
        if len(greeting) > end:
            self._unread.appendleft(bytes(greeting[end:]))
        return bytes(greeting[:end])

    def _decode_more(self) -> bool:
        if self._failure is not None:
            return False
        try:
            if self._engine.has_more:
                piece = b""
            elif self._unread:
                piece = self._unread.popleft()
                if self._greeting is not None:
                    piece = self._greeting_in(piece)
            else:
                return False
            self._events.extend(self._engine.receive(piece, most=DECODED_AT_ONCE))
        except RemoteProtocolError as error:
            self._events.extend(error.events)  # type: ignore[arg-type]  # each one is an Event
            self._failure = error
        return True

    def _handle_events(self) -> bool:
        handlers, waiting, gate, share = self._handlers, self._events, self.gate, self._share
        while waiting and gate.is_open and not self.peer.is_closing:
            event = waiting.popleft()
            try:
                handlers[type(event)](event)
            except BrokerError as error:
                self.peer.fail(server_error(error), str(error))
            except Exception:
                logger.exception(
                    "%s: handling %s failed",
                    self.peer.address,
                    type(event).__name__,
                    extra={"client": self.peer.address},
                )
                self.peer.fail(ServerError.UNKNOWN_ERROR, "internal error; see the broker's log")
            if not share.goes_on(self._continue):
                return False
        return True

    def _resume_reading(self) -> None:
        self.peer.heard()  # Do not count the pause as silence of the peer
        # The gate may open inside a commit's callback, so continue in the next pass of the event loop.
        self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self.peer.is_lost or not self.gate.is_open:
            return
        self._handle_unread()
        if self.gate.is_open and not self._is_out_of_turn and not self.peer.is_closing:
            self._link.resume_reading()

    def writable_again(self) -> None:
        """Resume writing and reading after most of the written bytes have left this process."""
        self.peer.drained()
        self._consumers.writable_again()
        self._topic_watchers.writable_again()

    def close(self, reason: str) -> None:
        """Log `reason`, send the bytes that are ready, and close."""
        self.peer.close(reason)

    def lost(self) -> None:
        """Release everything after the connection is lost. Safe to repeat.

        Clear the buffers too, because reference cycles keep the connection in memory until garbage
        collection.
        """
        if self.peer.is_lost:
            return
        self.peer.lost()
        self._engine.drop_input()
        self._authentication.stop()
        self._requests.ended()
        self._unread.clear()
        self._events.clear()
        self._producers.lost()
        self._consumers.lost()
        self._topic_watchers.lost()

    def _on_connect(self, event: events.Connect) -> None:
        ready, why = self._broker.is_ready()
        if not ready:
            self.peer.fail(ServerError.SERVICE_NOT_READY, why)
            return
        self.peer.identity = ClientIdentity(
            address=self.peer.address,
            client_version=event.client_version,
            face=self.peer.face,
            protocol_version=event.protocol_version,
            certificate_name=self.peer.identity.certificate_name,
        )
        self._authentication.on_connect(event)

    def _on_ping(self, _: events.Ping) -> None:
        self._engine.send_pong()

    def _ignore(self, _: events.Event) -> None:
        return

    def _on_unsupported(self, event: events.Unsupported) -> None:
        why = f"{event.name} is not available: {event.reason}"
        self._requests.count_refusal(event, why)
        self._engine.send_unsupported(event, why)


def refusal(settings: BrokerSettings, error: BrokerError) -> list[bytes]:
    """Return the frames that refuse a new connection."""
    engine = ServerEngine(server_version=SERVER_VERSION, max_message_bytes=settings.max_message_bytes)
    engine.refuse_connection(server_error(error), str(error))
    return engine.data_to_send()
