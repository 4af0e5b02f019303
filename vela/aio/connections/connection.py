"""One connection to a broker: requests and their answers, consumers, producers, keep-alive.

Everything here runs on the client's event loop. Only coroutine functions wait; every other method returns at once.
"""

# Over 400 lines: one state machine. Opening, losing, writing and reading change the same few fields.

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from vela.aio.connections.credentials import credentials_of
from vela.aio.connections.requests import Request, Requests, failed
from vela.aio.connections.sinks import ConsumerSink, ProducerSink
from vela.aio.own_loop import require_loop
from vela.aio.transports.byte_transport import HIGH_WATER_BYTES, ByteTransport
from vela.authentication import Authentication
from vela.core.first_words import FirstWords
from vela.errors import (
    AlreadyClosed,
    ConnectError,
    ErrorGettingAuthenticationData,
    HandshakeError,
    ReadError,
    VelaError,
    from_server_error,
)
from vela.wire.binary import commands, replies
from vela.wire.binary.client import ClientEngine
from vela.wire.errors import RemoteProtocolError

__all__ = ["Connection", "OpenTransport"]

logger = logging.getLogger(__name__)

_SILENT_INTERVALS: Final = 2  # a connection that was silent for so many keep-alive intervals is dead
_CLOSE_TIMEOUT_S: Final = 2.0

OpenTransport = Callable[["Connection"], Awaitable[ByteTransport]]


class Connection:
    """Made by the pool, which opens it; shared by consumers, producers and requests.

    `consumers` and `producers` are by their ids: put a sink in before the command that makes the broker answer,
    take it out when it is closed. A connection that is lost stays lost: writes to it vanish, requests raise.
    """

    def __init__(self, name: str, *, client_version: str, authentication: Authentication) -> None:
        self.name = name
        """Where to, for people: "pulsar://host:6650"."""
        self.consumers: dict[int, ConsumerSink[Connection]] = {}
        self.producers: dict[int, ProducerSink[Connection]] = {}
        self.writable = True
        """False: much is unsent; `await until_writable()` before writing what may wait."""
        self.pending_lookups = 0
        """Lookups that await their answer; the lookup service counts them."""
        self.idle_since: float | None = None
        """Loop time since when nobody uses it; the pool keeps it."""
        self.on_lost_callback: Callable[[Connection], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._engine = ClientEngine(client_version=client_version)
        self._authentication = authentication
        self._transport: ByteTransport | None = None
        self._first_words = FirstWords(name)
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._error: VelaError | None = None  # why it is lost
        self._requests = Requests(name, self._loop)
        self._out: list[bytes] = []  # written in this turn of the loop
        self._out_bytes = 0
        self._paused = False  # by the transport
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._last_heard = self._loop.time()
        self._keep_alive: asyncio.TimerHandle | None = None
        self._challenges: set[asyncio.Task[None]] = set()

    @property
    def is_lost(self) -> bool:
        """Nothing can be written and nothing comes any more."""
        return self._error is not None

    @property
    def is_used(self) -> bool:
        """A consumer, a producer or a request needs it."""
        return bool(self.consumers or self.producers or self._requests)

    @property
    def standing(self) -> str:
        """How far it came while it is being opened, for people."""
        return self._first_words.standing

    @property
    def is_reached(self) -> bool:
        """Somebody took it, and agreed on TLS where that was wanted."""
        return self._first_words.is_reached

    @property
    def is_answered(self) -> bool:
        """Something came over it."""
        return self._first_words.is_answered

    @property
    def max_message_bytes(self) -> int:
        """The largest entry that the broker takes."""
        return self._engine.max_message_bytes

    @property
    def server_version(self) -> str:
        """Free text of the broker."""
        return self._engine.server_version

    @property
    def protocol_version(self) -> int:
        """The lower of the two peers'."""
        return self._engine.protocol_version

    async def open(
        self, open_transport: OpenTransport, *, proxy_to_broker_url: str | None, keep_alive_interval_s: float
    ) -> None:
        """Connect and shake hands. On any error, cancellation included, nothing is left behind.

        Raises OSError, ConnectError, AuthenticationError or what else the broker refuses with.
        """
        try:
            data = await credentials_of(self._authentication)
            transport = await open_transport(self)
            if self._error is not None:  # the peer spoke, or went, before it was asked
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
            if self._error is not None:  # what came with CONNECTED broke it
                raise self._error
        except BaseException:
            self.abort(ConnectError("the connection was given up before it was made"))
            raise
        self._keep_alive = self._loop.call_later(
            keep_alive_interval_s, self._check_alive, keep_alive_interval_s
        )

    async def close(self) -> None:
        """Sends what is unsent and closes; returns when that is done, at the latest after two seconds.

        May be called twice.
        """
        if self._transport is not None and self._error is None:
            self._flush()
            self._transport.close()
            self._loop.call_later(_CLOSE_TIMEOUT_S, self._transport.abort)  # a peer that reads nothing more
            self._lose(AlreadyClosed("the connection was closed by this client"), abort=False)
        await asyncio.shield(self._lost)

    def abort(self, error: VelaError) -> None:
        """Closes at once, telling everyone `error`."""
        self._lose(error, abort=True)

    def _lose(self, error: VelaError, *, abort: bool) -> None:
        if self._error is not None:
            return
        self._error = error
        self._out.clear()
        self._out_bytes = 0
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
            self._connected.exception()  # nobody may be waiting
        self.writable = True
        self._resumed.set()
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
        """Sends bytes of whole frames, in order; never waits. Vanishes when the connection is lost.

        What is written in one turn of the event loop leaves in one piece.
        """
        if self._error is not None:
            return
        if not self._out:
            try:
                self._loop.call_soon(self._flush)
            except RuntimeError:  # the loop is closed: nobody will miss it
                return
        self._out += parts
        for part in parts:
            self._out_bytes += len(part)
        if self._out_bytes > HIGH_WATER_BYTES:
            self.writable = False
            self._resumed.clear()

    def _flush(self) -> None:
        if not self._out or self._transport is None:
            return
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        self._transport.write(data)
        if not self._paused:
            self._set_writable()

    def _set_writable(self) -> None:
        if not self.writable:
            self.writable = True
            self._resumed.set()

    async def until_writable(self) -> None:
        """Returns when `writable`, or when the connection is lost."""
        await self._resumed.wait()

    def on_pause(self) -> None:
        """See `ByteReceiver`."""
        self._paused = True
        self.writable = False
        self._resumed.clear()

    def on_resume(self) -> None:
        """See `ByteReceiver`."""
        self._paused = False
        self._set_writable()

    def next_request_id(self) -> int:
        """A number no other request on this connection has."""
        return self._requests.next_id()

    async def request(
        self,
        build: Callable[[int], bytes],
        *,
        timeout_s: float | None,
        on_queued: Callable[[], None] | None = None,
    ) -> replies.Answer:
        """Sends what `build` makes of a request id; the broker's answer to it.

        Raises what the broker refuses with, Timeout, and when the connection is lost ConnectError, ReadError
        or AlreadyClosed: whether the broker did what was asked is not known then. May be cancelled; a late
        answer is thrown away. `timeout_s` None = none. A PRODUCER that is queued (`ready` False) is not
        answered until its turn has come, however long that takes; `on_queued` is called when it is queued.
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
        """As `request`, for callers that do not wait: what is asked is written when this returns, so that its order
        among other writes is known. The future holds what `request` would raise; nobody needs to look at it.
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
        """See `ByteReceiver`."""
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
            heard = list(error.events)  # type: ignore[arg-type]  # what this engine puts there are replies
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
        """See `ByteReceiver`."""
        self._first_words.is_reached = True

    def on_answered(self) -> None:
        """See `ByteReceiver`."""
        self._first_words.is_answered = True

    def on_lost(self, error: Exception | None) -> None:
        """See `ByteReceiver`."""
        self._set_lost()
        reason = "the broker closed it" if error is None else str(error) or repr(error)
        kind: type[VelaError] = ReadError
        if not self._connected.done():
            kind = HandshakeError if isinstance(error, ssl.SSLError) else ConnectError
            reason += f"; it {self._first_words.progress}"
        self._lose(kind(f"the connection to {self.name} is lost: {reason}"), abort=False)

    def _challenged(self, challenge: replies.AuthChallenge) -> None:
        task = self._loop.create_task(self._answer_challenge(challenge))
        self._challenges.add(task)
        task.add_done_callback(self._challenges.discard)

    async def _answer_challenge(self, challenge: replies.AuthChallenge) -> None:
        try:
            data = await credentials_of(self._authentication)
        except ErrorGettingAuthenticationData as error:
            self.abort(error)
            return
        self.write(self._engine.auth_response(challenge.auth_method or self._authentication.method, data))

    def _check_alive(self, interval_s: float) -> None:
        assert self._keep_alive is not None
        now = self._loop.time()
        if now - self._keep_alive.when() > interval_s / 2:
            # This side was busy and did not ask: a broker that is not asked has nothing to say.
            self._last_heard = max(self._last_heard, now - interval_s)
        dead_at = self._last_heard + _SILENT_INTERVALS * interval_s
        if now >= dead_at:
            silent_s = now - self._last_heard
            self.abort(ConnectError(f"nothing came from {self.name} for {silent_s:.0f} s"))
            return
        self.write(commands.ping())
        self._keep_alive = self._loop.call_at(min(now + interval_s, dead_at), self._check_alive, interval_s)
