"""A real Daphne with a fake broker, in a thread: Twisted's reactor can run only once in a process."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from daphne.server import twisted_loop
from twisted.internet import reactor

from broker.doors.http.application import application
from broker.doors.http.daphne_server import DaphneServer
from broker.doors.pull.answers import PullAnswers
from broker.listening.connection_limits import ConnectionLimits
from broker.listening.tls_certificates import TlsCertificates
from tests.unit.doors.fake_broker import FakeBroker

T = TypeVar("T")


class DaphneThread:
    """The thread, which runs for the whole session. Each server that it starts has its own port and broker."""

    def __init__(self) -> None:
        self._reactor: Any = reactor
        self.tls_port = 0  # the TLS port of the latest server
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(twisted_loop)
        self._reactor.run(installSignalHandlers=False)

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the server's loop and wait for it."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work(), twisted_loop)
        return done.result(30)

    def start(
        self,
        *,
        max_message_bytes: int,
        request_timeout_s: float = 30,
        app: Callable[..., Awaitable[None]] | None = None,
        tls: TlsCertificates | None = None,
        **changed: Any,
    ) -> tuple[FakeBroker, DaphneServer]:
        """Start a server on a free port of 127.0.0.1, with TLS if `tls` is given. `changed` are settings to change."""

        async def start() -> tuple[FakeBroker, DaphneServer]:
            broker = FakeBroker(max_message_bytes=max_message_bytes)
            changes = {"http_request_timeout_s": request_timeout_s, **changed}
            broker.settings = dataclasses.replace(broker.settings, **changes)
            broker.connections = ConnectionLimits(broker.settings)
            pulls = PullAnswers(broker)
            server = DaphneServer(
                app or application(broker, pulls),
                pulls,
                settings=broker.settings,
                limits=broker.connections,
            )
            server.listen("127.0.0.1", 0)
            self.tls_port = 0 if tls is None else await server.listen_tls("127.0.0.1", 0, tls)
            return broker, server

        return self.call(start)

    def end(self) -> None:
        """Stop the reactor, which cannot be started again."""
        twisted_loop.call_soon_threadsafe(self._reactor.stop)
        self._thread.join(10)
