"""The broker's HTTP server, which runs Daphne in the broker's event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.doors.asgi import CERTIFICATE
from broker.doors.http.daphne_protocol import FlowControlledFactory, FlowControlledProtocol
from broker.doors.http.inbound_queue import InboundQueue
from broker.doors.pull.connection import PullConnection
from broker.doors.websocket.transport import EXTENSION
from broker.http_server import LimitedConnection, LimitedServer

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.doors.asgi import Application, Receive, Scope, Send
    from broker.doors.pull.answers import PullAnswers
    from broker.listening.connection_limits import ConnectionLimits
    from broker.listening.loop_time import TimeShare

__all__ = ["DaphneServer"]

HANDSHAKE_TIMEOUT_S: Final = 20
PING_PERIOD_S: Final = 30
PING_TIMEOUT_S: Final = 60


class DaphneServer(LimitedServer):
    """Serves an ASGI application. The caller runs Twisted's reactor."""

    def __init__(
        self,
        application: Application,
        pulls: PullAnswers | None = None,
        *,
        settings: BrokerSettings,
        limits: ConnectionLimits,
    ) -> None:
        self.max_message_bytes = settings.max_message_bytes
        self.pulls = pulls
        self.connection_class = LimitedConnection if pulls is None else PullConnection
        self.is_stopping = False
        super().__init__(
            application,
            settings=settings,
            limits=limits,
            websocket_timeout=-1,
            websocket_connect_timeout=HANDSHAKE_TIMEOUT_S,
            websocket_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ping_interval=PING_PERIOD_S,
            ping_timeout=PING_TIMEOUT_S,
            server_name="Vela",
        )

    def websocket_factory(self) -> Any:
        """Return the factory for WebSockets with flow control."""
        factory = FlowControlledFactory(self, server=self.server_name)
        factory.setProtocolOptions(
            versions=[13],  # By default, Autobahn also accepts the draft version 8.
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            utf8validateIncoming=False,  # `onMessage` checks the text at a tenth of the cost.
            failByDrop=False,  # After a violation, send a close frame with a reason.
        )
        return factory

    def pause_reading(self) -> None:
        """Stop reading from all WebSockets until `stop` closes them."""
        self.is_stopping = True
        for protocol in self.connections:
            if isinstance(protocol, FlowControlledProtocol):
                protocol.pause_reading()

    async def stop(self, timeout_s: float = 1.0) -> None:
        """Stop accepting connections, and close every WebSocket with 1001.

        Wait up to `timeout_s` for pulls, and cancel pulls that take longer. Then do the same for all other requests.
        """
        await self.stop_accepting()
        running: list[asyncio.Future[None]] = []
        for protocol, details in list(self.connections.items()):
            if isinstance(protocol, FlowControlledProtocol):
                protocol.finish()
            instance = details.get("application_instance")
            if instance is not None and not instance.done():
                running.append(instance)
        if self.pulls is not None:
            await self.pulls.stop(timeout_s)
        if running:
            _, late = await asyncio.wait(running, timeout=timeout_s)
            for instance in late:
                instance.cancel()
            if late:
                await asyncio.wait(late, timeout=timeout_s)

    def protocol_disconnected(self, protocol: Any) -> None:
        if protocol in self.connections:  # False after a refused handshake
            super().protocol_disconnected(protocol)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        queue: asyncio.Queue[Mapping[str, Any]] | InboundQueue
        application = self.application
        if isinstance(protocol, FlowControlledProtocol):
            queue = InboundQueue(
                pause=protocol.pause_reading, resume=protocol.resume_reading, on_empty=protocol.share.ends
            )
            extensions = {
                "websocket.http.response": {},
                EXTENSION: protocol,
                CERTIFICATE: protocol.certificate,
            }
            scope["scheme"] = "wss" if protocol.is_secure else "ws"
        else:
            queue = asyncio.Queue()
            application = functools.partial(_in_turn, application, protocol.channel.share)
            extensions = {CERTIFICATE: protocol.channel.certificate}
        scope["extensions"] = extensions
        scope.setdefault("asgi", {"version": "3.0"})
        if protocol not in self.connections:
            return None
        instance = asyncio.get_running_loop().create_task(
            application(scope, queue.get, functools.partial(self.handle_reply, protocol))
        )
        self.connections[protocol]["application_instance"] = instance
        return queue

    async def handle_reply(self, protocol: Any, message: Mapping[str, Any]) -> None:
        await super().handle_reply(protocol, message)
        if isinstance(protocol, FlowControlledProtocol):
            await protocol.drained()


async def _in_turn(
    application: Application, share: TimeShare, scope: Scope, receive: Receive, send: Send
) -> None:
    async def answer() -> None:
        await application(scope, receive, send)

    await share.turn()
    share.ends()
    await share.charging(answer(), paid_ns=0)
