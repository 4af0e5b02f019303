"""Pulsar's binary protocol on TCP, with and without TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from broker.doors.binary.connection import BinaryConnection, refusal
from broker.listening.arrival import Arrival
from broker.listening.listen import listen
from broker.listening.tls_certificates import TlsCertificates, client_certificate
from broker.listening.tls_listener import TlsListener

if TYPE_CHECKING:
    from broker.core.errors import TooManyConnections
    from broker.doors.ports import BrokerPort

__all__ = ["TcpListener"]

logger = logging.getLogger(__name__)

HIGH_WATER_BYTES: Final = 1024 * 1024  # Deliveries stop above this many unsent bytes.
LOW_WATER_BYTES: Final = 256 * 1024  # Deliveries resume at this many unsent bytes.
# The operating system closes a connection if the peer does not accept sent bytes for this long.
TAKES_NOTHING_TIMEOUT_MS: Final = 60_000
LINGER_S: Final = 5.0  # Time for the peer to read the last bytes before an abort


class _TcpLink:
    """A `ByteLink` over an asyncio transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.is_paused = False
        self.is_stopping = False

    def write(self, buffers: Sequence[bytes]) -> None:
        if not self._transport.is_closing():
            self._transport.writelines(buffers)

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def is_writable(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_stopping:
            self._transport.resume_reading()

    def close(self) -> None:
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class _TcpProtocol(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, listener: TcpListener, on_lost: Callable[[], None] | None = None) -> None:
        self._listener = listener
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # The option exists only on Linux.
            transport.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TAKES_NOTHING_TIMEOUT_MS
            )
        self._link = _TcpLink(transport)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self._share = self._listener.broker.connections.loop_time.share()
        self.connection = BinaryConnection(
            self._listener.broker,
            self._link,
            address=f"{peer[0]}:{peer[1]}",
            face="binary",
            share=self._share,
            certificate=client_certificate(transport.get_extra_info("peercert")),
        )
        self._listener.connected(self)

    def data_received(self, data: bytes) -> None:
        self.connection.receive(data)

    def pause_writing(self) -> None:
        self._link.is_paused = True

    def resume_writing(self) -> None:
        self._link.is_paused = False
        self.connection.writable_again()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.lost()
        self._share.close()
        self._listener.disconnected(self)
        if self._on_lost is not None:
            self._on_lost()

    def pause_reading(self) -> None:
        self._link.is_stopping = True
        self._link.pause_reading()

    def abort(self) -> None:
        self._link.abort()


class TcpListener:
    """Accepts connections between `start` and `stop_accepting`."""

    def __init__(self, broker: BrokerPort) -> None:
        self.broker = broker
        self._server: asyncio.Server | None = None
        self._tls: TlsListener | None = None
        self._protocols: set[_TcpProtocol] = set()
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    @property
    def port(self) -> int:
        """The port for connections without TLS. Raises RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the listener has not been started")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str, port: int) -> None:
        """Listen without TLS. Raises OSError if the address is in use or not local."""
        limits = self.broker.connections
        self._server = await listen(
            lambda: Arrival(limits, lambda place: _TcpProtocol(self, place.leave), self._refuse), host, port
        )

    async def start_tls(self, host: str, port: int, certificates: TlsCertificates) -> int:
        """Listen with TLS, and return the port. Raises OSError if the address is in use or not local."""
        self._tls = TlsListener(
            lambda: _TcpProtocol(self),
            certificates,
            self.broker.connections,
            handshake_timeout_s=self.broker.settings.handshake_timeout_s,
        )
        await self._tls.start(host, port)
        return self._tls.port

    def _refuse(self, transport: asyncio.Transport, error: TooManyConnections) -> None:
        transport.writelines(refusal(self.broker.settings, error))
        transport.close()

    def stop_accepting(self) -> None:
        """Stop accepting connections."""
        if self._server is not None:
            self._server.close()
        if self._tls is not None:
            self._tls.stop_accepting()

    def pause_reading(self) -> None:
        """Stop reading from every connection until `stop` closes it."""
        for protocol in self._protocols:
            protocol.pause_reading()

    async def stop(self, timeout_s: float = 1.0) -> None:
        """Stop accepting, and close every connection after its written bytes are sent.

        Connections that are still open after `timeout_s` are aborted.
        """
        self.stop_accepting()
        for protocol in list(self._protocols):
            protocol.connection.close("the broker is stopping")
        try:
            await asyncio.wait_for(self._all_gone.wait(), timeout_s)
        except TimeoutError:
            for protocol in list(self._protocols):
                protocol.abort()

    def connected(self, protocol: _TcpProtocol) -> None:
        """Register an accepted connection."""
        self._protocols.add(protocol)
        self._all_gone.clear()

    def disconnected(self, protocol: _TcpProtocol) -> None:
        """Forget a lost connection."""
        self._protocols.discard(protocol)
        if not self._protocols:
            self._all_gone.set()
