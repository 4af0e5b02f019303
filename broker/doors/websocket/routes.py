"""From a WebSocket request to its handler: path and query read, the handler opened, its refusal answered over HTTP."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker.clock import Clock, SystemClock
from broker.core.errors import BrokerError
from broker.doors.asgi import refuse_handshake
from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.query import parse_query
from broker.doors.server_errors import http_status
from broker.doors.websocket.binary_socket import BinarySocket
from broker.doors.websocket.consumer.consumer_socket import ConsumerSocket
from broker.doors.websocket.consumer.fragment_cache import FragmentCache
from broker.doors.websocket.consumer.reader_socket import ReaderSocket
from broker.doors.websocket.json.options import consumer_options, producer_options, reader_options
from broker.doors.websocket.json.paths import (
    BinaryPath,
    MultiTopicConsumerPath,
    PingPongPath,
    ProducerPath,
    ReaderPath,
    parse_path,
)
from broker.doors.websocket.producer.producer_socket import ProducerSocket
from broker.doors.websocket.socket import BrokerSocket, PingPongSocket
from broker.doors.websocket.transport import socket_of

if TYPE_CHECKING:
    from broker.doors.asgi import Receive, Scope, Send
    from broker.doors.ports import BrokerPort
    from broker.doors.websocket.transport import Socket

__all__ = ["WebSocketRouter"]

log = logging.getLogger(__name__)

OPEN_TIMEOUT_S: Final = 15.0
FRAGMENT_CACHE_BYTES: Final = 8 * 1024 * 1024


class WebSocketRouter:
    """An ASGI application for `websocket` scopes."""

    def __init__(self, broker: BrokerPort, clock: Clock | None = None) -> None:
        self._broker = broker
        self._clock = clock or SystemClock()
        self._fragments = FragmentCache(FRAGMENT_CACHE_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            handler = self._handler(scope, socket_of(scope))
        except HandshakeRefused as error:
            await refuse_handshake(send, error)
            return
        try:
            refusal = await self._open(handler)
            if refusal is not None:
                await refuse_handshake(send, refusal)
                return
            await handler.run(receive, send)
        finally:
            handler.lost()

    def _handler(self, scope: Scope, socket: Socket) -> BrokerSocket:
        query = parse_query(scope["query_string"])
        path = parse_path(scope["raw_path"], query)
        broker, clock = self._broker, self._clock
        match path:
            case BinaryPath():
                return BinarySocket(broker, socket)
            case PingPongPath():
                return PingPongSocket(socket)
            case ProducerPath():
                return ProducerSocket(broker, socket, clock, path.full_topic, producer_options(query))
            case ReaderPath():
                return ReaderSocket(
                    broker, socket, clock, self._fragments, path.full_topic, reader_options(query)
                )
        topics = path.topics if isinstance(path, MultiTopicConsumerPath) else (path.full_topic,)
        if not topics:
            raise InvalidQuery("topicsPattern is not available yet; name the topics in topics")
        return ConsumerSocket(
            broker, socket, clock, self._fragments, topics, path.subscription, consumer_options(query)
        )

    async def _open(self, handler: BrokerSocket) -> HandshakeRefused | None:
        """Why the handler cannot be opened; None when it is open."""
        ready, why = self._broker.is_ready()
        if not ready:
            return handler.refusal(503, why)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await handler.open()
        except BrokerError as error:
            return handler.refusal(http_status(error), str(error))
        except TimeoutError:
            return handler.refusal(504, f"the broker did not answer within {OPEN_TIMEOUT_S:g} s")
        except HandshakeRefused as refusal:
            return refusal
        except Exception:
            log.exception("%s: opening failed", handler.address)
            return handler.refusal(500, "internal error; the broker's log says which")
        return None
