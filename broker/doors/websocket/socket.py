"""The base class of the broker's WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from channels.generic.websocket import AsyncWebsocketConsumer

from broker.core.access.principal import ANONYMOUS
from broker.core.client_identity import JSON_FACE, ClientIdentity
from broker.core.errors import AuthenticationFailed, BrokerError, ServiceNotReady
from broker.doors.asgi import certificate_of, refuse_handshake
from broker.doors.credentials_watch import CredentialsWatch
from broker.doors.guard import GuardedBroker
from broker.doors.handshake_errors import HandshakeRefused
from broker.doors.http_credentials import principal_of
from broker.doors.server_errors import http_status
from broker.doors.websocket.json.errors import (
    CloseCode,
    SessionError,
    UnexpectedBinaryFrame,
    WebSocketError,
    close_reason,
)
from broker.doors.websocket.transport import FrameTransport, transport_of

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.topic_name import TopicName
    from broker.doors.asgi import Receive, Scope, Send
    from broker.doors.ports import BrokerPort, ClientPort
    from broker.doors.query import Query

__all__ = [
    "NO_CLOSE_FRAME",
    "OPEN_TIMEOUT_S",
    "PROBE_TIMEOUT_MS",
    "BrokerSocket",
    "PingPongSocket",
    "only_text",
]

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S: Final = 15.0
PROBE_TIMEOUT_MS: Final = 5_000
CHARGED_AT_ONCE: Final = 8
NO_CLOSE_FRAME: Final = 1006


class BrokerSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """One WebSocket connection, with the interface of Channels' `AsyncWebsocketConsumer`.

    `connect` accepts the connection or raises HandshakeRefused. `disconnect` is called once, even after a refusal.
    """

    scope: Scope
    transport: FrameTransport
    broker: ClientPort

    def __init__(self, *, broker: BrokerPort, clock: Clock) -> None:
        super().__init__()
        self.broker = self.guard = GuardedBroker(broker)
        self.clock = clock
        self._authenticator = broker
        self._rates = broker.connections.rates
        self.taken = 1  # Number of messages or commands in the latest frame
        self._ended: BrokerError | None = None
        self._watch = CredentialsWatch(
            broker,
            self.guard,
            call_later=asyncio.get_running_loop().call_later,
            on_expired=lambda: self._refused(
                AuthenticationFailed("the credentials have expired: connect again with new ones")
            ),
            on_refused=self._refused,
        )

    @property
    def address(self) -> str:
        """Host and port of the peer."""
        return self.transport.address

    @property
    def identity(self) -> ClientIdentity:
        """The identity of the peer's producers and consumers."""
        certificate = certificate_of(self.scope)
        return ClientIdentity(
            address=self.address,
            client_version="",
            face=JSON_FACE,
            certificate_name=certificate.name if certificate is not None else "",
        )

    @property
    def path_arguments(self) -> Mapping[str, str]:
        """Arguments of the URL route, still percent-encoded."""
        found: Mapping[str, str] = self.scope["url_route"]["kwargs"]
        return found

    @property
    def query(self) -> Query:
        """The decoded query string."""
        query: Query = self.scope["query"]
        return query

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.base_send = send
        self.transport = transport_of(scope)
        code = NO_CLOSE_FRAME
        try:
            try:
                await self.websocket_connect(await receive())
            except HandshakeRefused as refusal:
                await refuse_handshake(send, refusal)
                return
            code = await self._serve(receive)
        finally:
            self._watch.stop()
            await self.disconnect(code)
            self.transport.share.close()

    def _refused(self, error: BrokerError) -> None:
        number = (
            WebSocketError.AUTHENTICATION_ERROR
            if isinstance(error, AuthenticationFailed)
            else WebSocketError.NOT_AUTHORIZED
        )
        self.end(CloseCode.POLICY_VIOLATION, f"{int(number)}: {error}", error)

    def end(self, code: CloseCode, reason: str, error: BrokerError) -> None:
        """Close the socket and detach from the broker.

        If the socket is still opening, refuse the handshake with `error`.
        """
        self._ended = error
        self.transport.close(code, close_reason(reason))
        self.release()

    async def _serve(self, receive: Receive) -> int:
        share = self.transport.share
        frames = 0
        while True:
            event = await receive()
            if event["type"] != "websocket.receive":
                return _close_code(event)
            frames += 1
            if share.is_working:
                if frames % CHARGED_AT_ONCE == 0 and not share.may_go_on():
                    await share.turn()
            elif not share.may_begin():
                await share.turn()
            try:
                await self.receive(text_data=event.get("text"), bytes_data=event.get("bytes"))
                if self._rates.limits_sockets and event.get("text") is not None:
                    await share.away(self._keep_to_rates(self.taken, len(event["text"].encode())))
            except SessionError as error:
                share.ends()
                self.transport.close(error.close_code, error.reason)
                self.release()
                return await _until_gone(receive)
            except Exception:
                self.transport.close(CloseCode.INTERNAL_ERROR, "internal error; see the broker's log")
                raise

    async def _keep_to_rates(self, messages: int, size_bytes: int) -> None:
        principal = self.guard.principal
        role = "" if principal is None or principal is ANONYMOUS else principal.role
        while wait_s := self._rates.wait_s(self.address, role, messages=messages, size_bytes=size_bytes):
            if not self.transport.is_connected():
                return
            messages = size_bytes = 0
            await asyncio.sleep(wait_s)

    async def connect(self) -> None:
        """Accept the connection without authentication. Raises HandshakeRefused if the broker is not ready."""
        self._require_ready()
        await self.accept()

    def _require_ready(self) -> None:
        ready, why = self.broker.is_ready()
        if not ready:
            raise self.refusal(503, why)

    @contextlib.asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        """Authenticate the client, then run the `async with` block.

        Every failure raises HandshakeRefused.
        """
        self._require_ready()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                self.guard.principal = await principal_of(
                    self._authenticator, self.scope, token=self.query.get("token", "")
                )
                yield
            self.guard.recheck()  # Permissions may have changed during the block
            self._watch.begin()
            if self._ended is not None:
                raise self._ended
        except BrokerError as error:
            raise self.refusal(http_status(error), str(error)) from None
        except TimeoutError:
            raise self.refusal(504, f"the broker did not answer within {OPEN_TIMEOUT_S:g} s") from None
        except HandshakeRefused:
            raise
        except Exception:
            logger.exception("%s: opening failed", self.address)
            raise self.refusal(500, "internal error; see the broker's log") from None

    async def check_partitions(self, topic: TopicName, attached: int) -> None:
        """Raise ServiceNotReady if the topic's number of partitions differs from `attached`.

        If `attached` is 0, the topic is not partitioned, so do nothing.

        When partitions are added, the broker closes the topic's sockets. It can miss a socket that is still opening, so
        a socket makes this check after it has attached to the topic.
        """
        if attached and await self.broker.partition_count(topic, create=False) != attached:
            raise ServiceNotReady(f"{topic} has just got more partitions: connect again")

    def refusal(self, status: int, reason: str) -> HandshakeRefused:
        """Return the answer to a failed handshake."""
        return HandshakeRefused(status, reason)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle one frame. Raises SessionError to close the socket.

        Subclasses that override this method must wait only inside `transport.share.away`. Any other wait counts as work
        of this connection.
        """
        only_text(text_data)

    async def disconnect(self, code: int) -> None:
        self.release()

    def release(self) -> None:
        """Detach from the broker. Safe to repeat."""


class PingPongSocket(BrokerSocket):
    """The socket `/ws/pingpong`. It ignores text frames."""


def only_text(text_data: str | None) -> str:
    """Return the frame's text. Raises UnexpectedBinaryFrame for a binary frame."""
    if text_data is None:
        raise UnexpectedBinaryFrame("binary frames belong to /ws/binary; send text")
    return text_data


def _close_code(event: Mapping[str, Any]) -> int:
    return event.get("code") or NO_CLOSE_FRAME


async def _until_gone(receive: Receive) -> int:
    while (event := await receive())["type"] == "websocket.receive":
        pass
    return _close_code(event)
