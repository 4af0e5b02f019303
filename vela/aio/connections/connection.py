"""One connection to a broker: requests and their answers, consumers, producers, keep-alive.

Everything here runs on the client's event loop. Only coroutine functions wait; every other method returns at once.
"""

# Over 400 lines, because it is one state machine: opening, losing, writing and reading change the same few fields.

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from vela.aio.connections.credentials import credentials_of
from vela.aio.connections.requests import Request, Requests, failed
from vela.aio.connections.sinks import ConsumerSink, ProducerSink
from vela.aio.connections.tls import why_tls_failed
from vela.aio.own_loop import require_loop
from vela.aio.transports.byte_transport import ByteTransport
from vela.authentication import Authentication
from vela.core.first_words import FirstWords
from vela.errors import (
    AlreadyClosed,
    AuthenticationError,
    ConnectError,
    ErrorGettingAuthenticationData,
    HandshakeError,
    ReadError,
    VelaError,
    from_server_error,
)
from vela.wire.binary import commands, replies
from vela.wire.binary.client import ClientEngine
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.errors import RemoteProtocolError

__all__ = ["Connection", "OpenTransport"]

logger = logging.getLogger(__name__)

_SILENT_INTERVALS: Final = 2  # keep-alive intervals without any data after which a connection counts as dead
_CLOSE_TIMEOUT_S: Final = 2.0

OpenTransport = Callable[["Connection"], Awaitable[ByteTransport]]


class Connection:
    """A connection to a broker, which the pool opens. Consumers, producers and requests share it.

    `consumers` and `producers` map ids to sinks. Add a sink before you send SUBSCRIBE or PRODUCER, and remove it when
    the consumer or producer is closed. A lost connection stays lost: writes do nothing, and requests raise.
    """

    def __init__(self, name: str, *, client_version: str, authentication: Authentication) -> None:
        self.name = name
        """The broker's address, for logs and errors: "pulsar://host:6650"."""
        self.consumers: dict[int, ConsumerSink[Connection]] = {}
        self.producers: dict[int, ProducerSink[Connection]] = {}
        self.pending_lookups = 0
        """Number of lookups that wait for their answer. The lookup service counts them."""
        self.idle_since: float | None = None
        """Loop time when the pool first found the connection unused; None = it was in use at the pool's last look."""
        self.on_lost_callback: Callable[[Connection], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._engine = ClientEngine(client_version=client_version)
        self._authentication = authentication
        self._credentials = b""  # the credentials sent to the broker last
        self._transport: ByteTransport | None = None
        self._first_words = FirstWords(name)
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._error: VelaError | None = None  # why the connection is lost
        self._requests = Requests(name, self._loop)
        self._out: list[bytes] = []  # bytes written in this turn of the loop
        self._last_heard = self._loop.time()
        self._keep_alive: asyncio.TimerHandle | None = None
        self._challenges: set[asyncio.Task[None]] = set()

    @property
    def is_lost(self) -> bool:
        """Return whether the connection is lost."""
        return self._error is not None

    @property
    def is_used(self) -> bool:
        """Return whether a consumer, producer or request uses the connection."""
        return bool(self.consumers or self.producers or self._requests)

    @property
    def standing(self) -> str:
        """Return how far the connection got while it was being opened, for errors."""
        return self._first_words.standing

    @property
    def is_reached(self) -> bool:
        """Return whether a server has accepted the connection, including the TLS handshake if the URL has TLS."""
        return self._first_words.is_reached

    @property
    def is_answered(self) -> bool:
        """Return whether the server has sent anything."""
        return self._first_words.is_answered

    @property
    def max_message_bytes(self) -> int:
        """Return the size of the largest payload that the broker accepts, in bytes."""
        return self._engine.max_message_bytes

    @property
    def server_version(self) -> str:
        """Return the broker's version, which is free text."""
        return self._engine.server_version

    @property
    def protocol_version(self) -> int:
        """Return the protocol version, which is the lower one of the two peers' versions."""
        return self._engine.protocol_version

    async def open(
        self, open_transport: OpenTransport, *, proxy_to_broker_url: str | None, keep_alive_interval_s: float
    ) -> None:
        """Connect and do the handshake. After an error or cancellation nothing stays open.

        Raises OSError, ConnectError, ReadError, ErrorGettingAuthenticationData, AuthenticationError or another refusal
        of the broker.
        """
        try:
            data = self._credentials = await credentials_of(self._authentication)
            transport = await open_transport(self)
            if self._error is not None:  # the peer sent something, or closed, before the handshake
                transport.abort()
                raise self._error
            self._transport = transport
            method = self._authentication.method
            anonymous = method == Authentication.method
            self.write(
                self._engine.connect(
                    auth_method=None if anonymous else method,
                    auth_data=None if anonymous else data,
                    proxy_to_broker_url=proxy_to_broker_url,
                )
            )
            await self._connected
            if self._error is not None:  # data after CONNECTED broke the protocol
                raise self._error
        except BaseException:
            self.abort(ConnectError("opening the connection was cancelled"))
            raise
        self._keep_alive = self._loop.call_later(
            keep_alive_interval_s, self._check_alive, keep_alive_interval_s
        )

    async def close(self) -> None:
        """Send unsent data and close. Returns when that is done, after at most two seconds. Safe to repeat."""
        if self._transport is not None and self._error is None:
            self._flush()
            self._transport.close()
            self._loop.call_later(_CLOSE_TIMEOUT_S, self._transport.abort)  # if the peer no longer reads
            self._lose(AlreadyClosed("the connection was closed by this client"), abort=False)
        await asyncio.shield(self._lost)

    def abort(self, error: VelaError) -> None:
        """Close at once. Requests fail with `error`, and sinks get the same error."""
        self._lose(error, abort=True)

    def _lose(self, error: VelaError, *, abort: bool) -> None:
        if self._error is not None:
            return
        self._error = error
        if isinstance(error, AuthenticationError):
            self._authentication.refused(self._credentials)
        self._out.clear()
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        for task in self._challenges:
            task.cancel()
        if self._transport is None:
            self._set_lost()
        elif abort:
            self._transport.abort()
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # mark it as seen: asyncio must not log it if nobody awaits it
        self._tell_all(error)

    def _tell_all(self, error: VelaError) -> None:
        self._requests.fail_all(error)
        sinks: list[ConsumerSink[Connection] | ProducerSink[Connection]] = [
            *self.consumers.values(),
            *self.producers.values(),
        ]
        self.consumers.clear()
        self.producers.clear()
        for sink in sinks:
            try:
                sink.on_connection_lost(self, error)
            except Exception:
                logger.exception(
                    "%s was lost, and code that handles this failed; its state may be stale", self.name
                )
        if self.on_lost_callback is not None:
            self.on_lost_callback(self)

    def _set_lost(self) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    def write(self, *parts: bytes) -> None:
        """Send bytes of complete frames, in order. Never waits. Does nothing if the connection is lost.

        All data written in one turn of the event loop is sent together.
        """
        if self._error is not None:
            return
        if not self._out:
            try:
                self._loop.call_soon(self._flush)
            except RuntimeError:  # the loop is closed
                return
        self._out += parts

    def _flush(self) -> None:
        if not self._out or self._transport is None:
            return
        data = b"".join(self._out)
        self._out.clear()
        self._transport.write(data)

    def next_request_id(self) -> int:
        """Return an id that no other request on this connection has."""
        return self._requests.next_id()

    async def request(
        self,
        build: Callable[[int], bytes],
        *,
        timeout_s: float | None,
        on_queued: Callable[[], None] | None = None,
    ) -> replies.Answer:
        """Send the request that `build` makes from a request id, and return the broker's answer.

        Raises the broker's refusals and Timeout. If the connection is lost, raises the error that ended it, such as
        ConnectError, ReadError or AlreadyClosed; then it is not known whether the broker has carried out the request.
        Safe to cancel: a late answer is ignored. `timeout_s` None = no limit. If the broker queues a PRODUCER (`ready`
        False), `on_queued` is called, and the answer comes, without a time limit, when it is the producer's turn.
        """
        require_loop(self._loop)
        if self._error is not None:
            raise self._error.with_traceback(None)
        request = self._begin(build, timeout_s, on_queued)
        try:
            return await request.answer
        finally:
            self._requests.end(request)

    def ask(
        self, build: Callable[[int], bytes], *, timeout_s: float | None
    ) -> asyncio.Future[replies.Answer]:
        """Do the same as `request` without waiting. The request is written when this returns, so its order among other
        writes is known. The future has the result of `request`; you need not await it.
        """
        if self._error is not None:
            return failed(self._loop, self._error)
        request = self._begin(build, timeout_s)
        request.answer.add_done_callback(lambda _: self._requests.end(request))
        return request.answer

    def _begin(
        self,
        build: Callable[[int], bytes],
        timeout_s: float | None,
        on_queued: Callable[[], None] | None = None,
    ) -> Request:
        request_id = self._requests.next_id()
        frame = build(request_id)
        request = self._requests.begin(request_id, timeout_s, on_queued)
        self.write(frame)
        return request

    def on_bytes(self, data: bytes) -> None:
        """Process data from the broker."""
        if self._error is not None:
            return
        self._last_heard = self._loop.time()
        if not self._connected.done() and not self._first_words.begin_a_frame(data):
            self.abort(HandshakeError(self._first_words.refusal))
            return
        failure: RemoteProtocolError | None = None
        try:
            heard: list[replies.Reply] = self._engine.receive(data)
        except RemoteProtocolError as error:
            failure = error
            heard = list(error.events)  # type: ignore[arg-type]  # this engine's events are replies
        try:
            self._handle(heard)
        except Exception as error:
            logger.exception(
                "%s: handling a command from the broker failed; the connection is closed", self.name
            )
            self.abort(ReadError(f"{self.name} was closed because of an error in this client: {error!r}"))
        if failure is not None:
            logger.warning("%s: %s", self.name, failure)
            self._mistrust(failure)

    def _mistrust(self, failure: RemoteProtocolError) -> None:
        if self._connected.done():
            self.abort(ReadError(f"{self.name} broke the protocol: {failure}"))
        else:
            self.abort(HandshakeError(f"{self._first_words.refusal} ({failure})"))

    def _handle(self, heard: list[replies.Reply]) -> None:
        consumers, producers = self.consumers, self.producers
        for reply in heard:
            kind = type(reply)
            if kind is replies.Message:
                consumer = consumers.get(reply.consumer_id)  # type: ignore[union-attr]
                if consumer is not None:
                    consumer.on_message(self, reply)  # type: ignore[arg-type]
            elif kind is replies.Receipt:
                producer = producers.get(reply.producer_id)  # type: ignore[union-attr]
                if producer is not None:
                    producer.on_receipt(self, reply)  # type: ignore[arg-type]
            else:
                self._control(reply)

    def _control(self, reply: replies.Reply) -> None:
        match reply:
            case replies.Refusal() if self._refuses_connection(reply):
                self.abort(from_server_error(reply.code, reply.message))
            case replies.Ping():
                self.write(commands.pong())
            case replies.Pong() | replies.Unknown():
                pass
            case replies.Connected():
                assert self._transport is not None, "CONNECT has been sent"
                self._transport.limit_frames(self._engine.max_message_bytes + FRAME_PADDING_BYTES)
                if not self._connected.done():
                    self._connected.set_result(None)
            case replies.AuthChallenge():
                self._challenged(reply)
            case replies.SendError():
                if (producer := self.producers.get(reply.producer_id)) is not None:
                    producer.on_send_error(self, reply)
            case replies.CloseProducer():
                if (producer := self.producers.pop(reply.producer_id, None)) is not None:
                    producer.on_closed_by_broker(self)
            case replies.CloseConsumer():
                if (consumer := self.consumers.pop(reply.consumer_id, None)) is not None:
                    consumer.on_closed_by_broker(self)
            case replies.ActiveConsumerChange():
                if (consumer := self.consumers.get(reply.consumer_id)) is not None:
                    consumer.on_active_change(self, reply.is_active)
            case replies.EndOfTopic():
                if (consumer := self.consumers.get(reply.consumer_id)) is not None:
                    consumer.on_end_of_topic(self)
            case replies.Message() | replies.Receipt():
                raise AssertionError("handled above")
            case _:
                self._requests.answered(reply)

    def _refuses_connection(self, refusal: replies.Refusal) -> bool:
        return refusal.request_id == commands.NO_REQUEST or not self._connected.done()

    def on_reached(self) -> None:
        """Note that a server has accepted the connection."""
        self._first_words.is_reached = True

    def on_answered(self) -> None:
        """Note that the server has sent something."""
        self._first_words.is_answered = True

    def on_lost(self, error: Exception | None) -> None:
        """End the connection, because the transport is closed."""
        self._set_lost()
        reason = "the broker closed it" if error is None else str(error) or repr(error)
        kind: type[VelaError] = ReadError
        if not self._connected.done():
            if isinstance(error, ssl.SSLError):
                kind, reason = HandshakeError, why_tls_failed(error)
            else:
                kind = ConnectError
                reason += f"; it {self._first_words.progress}"
        self._lose(kind(f"the connection to {self.name} is lost: {reason}"), abort=False)

    def _challenged(self, challenge: replies.AuthChallenge) -> None:
        task = self._loop.create_task(self._answer_challenge(challenge))
        self._challenges.add(task)
        task.add_done_callback(self._challenges.discard)

    async def _answer_challenge(self, challenge: replies.AuthChallenge) -> None:
        self._authentication.refused(self._credentials)
        try:
            data = self._credentials = await credentials_of(self._authentication)
        except ErrorGettingAuthenticationData as error:
            self.abort(error)
            return
        self.write(self._engine.auth_response(challenge.auth_method or self._authentication.method, data))

    def _check_alive(self, interval_s: float) -> None:
        assert self._keep_alive is not None
        now = self._loop.time()
        if now - self._keep_alive.when() > interval_s / 2:
            # This process was busy and sent no ping, so the broker had no reason to answer.
            self._last_heard = max(self._last_heard, now - interval_s)
        dead_at = self._last_heard + _SILENT_INTERVALS * interval_s
        if now >= dead_at:
            silent_s = now - self._last_heard
            self.abort(ConnectError(f"{self.name} has sent nothing for {silent_s:.0f} s"))
            return
        self.write(commands.ping())
        self._keep_alive = self._loop.call_at(min(now + interval_s, dead_at), self._check_alive, interval_s)
