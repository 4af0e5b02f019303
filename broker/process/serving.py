"""Start and stop the broker's process.

The ports are bound before the broker waits for the database lock, so a port in use is reported at once.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import psycopg
from daphne.server import twisted_loop
from twisted.internet import reactor

from broker import service_manager
from broker.conf import EXIT_LOCK_TAKEN, EXIT_SETTING_INVALID
from broker.doors.admin.application import AdminPages
from broker.doors.binary.tcp import TcpListener
from broker.doors.http.application import application
from broker.doors.http.daphne_server import DaphneServer
from broker.doors.ports import AdminPort, BrokerPort
from broker.doors.pull.answers import PullAnswers
from broker.listening.tls_certificates import CertificateUnusable, TlsCertificates
from broker.process.garbage import FullCollections
from broker.process.ownership import BrokerAlreadyRuns

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.process.connection_metrics import ConnectionMetrics

__all__ = ["CannotStart", "RunningBroker", "run_broker"]

logger = logging.getLogger(__name__)

# A tenth of Python's default, so that worker threads yield to the event loop sooner.
SWITCH_INTERVAL_S: Final = 0.0005
CLOSE_TIMEOUT_S: Final = 1.0


class RunningBroker(BrokerPort, AdminPort, Protocol):
    """A broker that can be started and stopped."""

    @property
    def connection_metrics(self) -> ConnectionMetrics:
        """The part of /metrics about connections."""

    async def start(self) -> None:
        """Take the database lock and begin to serve."""

    async def stop(self) -> None:
        """Send the outstanding receipts, store the cursors, and stop."""


class CannotStart(Exception):
    """The broker cannot start. The exit code says whether to try again."""

    def __init__(self, text: str, *, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def run_broker(broker: Callable[[], RunningBroker]) -> None:
    """Create the broker, and serve until SIGTERM or SIGINT. Raises CannotStart."""
    asyncio.set_event_loop(twisted_loop)
    serving = twisted_loop.create_task(_serve(broker), name="broker")
    serving.add_done_callback(lambda _: _reactor().stop())
    _reactor().run(installSignalHandlers=False)
    serving.result()


def _reactor() -> Any:
    return reactor


async def _serve(make_broker: Callable[[], RunningBroker]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = make_broker()
    tcp = TcpListener(broker)
    pulls = PullAnswers(broker)
    http = DaphneServer(
        application(broker, pulls, AdminPages(broker)),
        pulls,
        settings=broker.settings,
        limits=broker.connections,
    )
    certificates = _certificates(broker)
    collections = FullCollections()
    try:
        where = await _listen(broker.settings, tcp, http, certificates)
        if not await _start(broker, stopping):
            await _close(tcp, http)
            return
    except CannotStart:
        await _close(tcp, http)
        raise
    try:
        # Most objects alive at this point live as long as the process.
        gc.collect()
        gc.freeze()
        collections.start()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        if certificates is not None:
            certificates.watch()
        logger.info("serving %s", where)
        service_manager.tell(service_manager.READY)
        await stopping.wait()
    finally:
        service_manager.tell(service_manager.STOPPING)
        collections.stop()
        if certificates is not None:
            certificates.stop()
        # Clients must get their receipts before they are disconnected.
        tcp.stop_accepting()
        await http.stop_accepting()
        tcp.pause_reading()
        http.pause_reading()
        await broker.stop()
        await _close(tcp, http)


def _certificates(broker: RunningBroker) -> TlsCertificates | None:
    if not broker.settings.has_tls:
        return None
    try:
        certificates = TlsCertificates(broker.settings, asks_clients=True)
    except CertificateUnusable as error:
        raise CannotStart(str(error), exit_code=EXIT_SETTING_INVALID) from None
    broker.connection_metrics.certificates = certificates
    return certificates


async def _listen(
    settings: BrokerSettings, tcp: TcpListener, http: DaphneServer, certificates: TlsCertificates | None
) -> str:
    found = []
    setting, port = "", 0
    try:
        if settings.pulsar_port is not None:
            setting, port = "VELA_PULSAR_PORT", settings.pulsar_port
            await tcp.start(settings.bind, port)
            found.append(f"pulsar:{tcp.port}")
        if settings.http_port is not None:
            setting, port = "VELA_HTTP_PORT", settings.http_port
            http.listen(settings.bind, port)
            found.append(f"http:{http.port}")
        if certificates is not None and settings.pulsar_tls_port is not None:
            setting, port = "VELA_PULSAR_TLS_PORT", settings.pulsar_tls_port
            found.append(f"pulsar+ssl:{await tcp.start_tls(settings.bind, port, certificates)}")
        if certificates is not None and settings.http_tls_port is not None:
            setting, port = "VELA_HTTP_TLS_PORT", settings.http_tls_port
            found.append(f"https:{await http.listen_tls(settings.bind, port, certificates)}")
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotStart(
            f"cannot listen on {settings.bind}:{port} ({reason}): set {setting} or VELA_BIND",
            exit_code=1 if error.errno == errno.EADDRINUSE else EXIT_SETTING_INVALID,
        ) from None
    return f"{' '.join(found)} on {settings.bind}"


async def _start(broker: RunningBroker, stopping: asyncio.Event) -> bool:
    starting = asyncio.ensure_future(broker.start())
    told = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return False
    try:
        await starting
    except BrokerAlreadyRuns as error:
        raise CannotStart(str(error), exit_code=EXIT_LOCK_TAKEN) from None
    except psycopg.Error as error:
        first = str(error).strip().splitlines()[0]
        raise CannotStart(
            f"the database cannot be used ({first}): see DATABASE_URL and `manage.py migrate`",
            exit_code=1,
        ) from None
    return True


async def _close(tcp: TcpListener, http: DaphneServer) -> None:
    await asyncio.gather(tcp.stop(CLOSE_TIMEOUT_S), http.stop(CLOSE_TIMEOUT_S))
