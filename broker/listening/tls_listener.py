"""Listen for TLS connections and pass the decrypted bytes to a protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.listening.arrival import Arrival
from broker.listening.listen import listen
from broker.listening.tls_connection import TlsConnection

if TYPE_CHECKING:
    from broker.core.errors import TooManyConnections
    from broker.listening.connection_limits import ConnectionLimits, ConnectionPlace
    from broker.listening.tls_certificates import TlsCertificates

__all__ = ["TlsListener"]

logger = logging.getLogger(__name__)


class TlsListener:
    """A listener for TLS connections. Each new connection uses the current certificate."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        certificates: TlsCertificates,
        limits: ConnectionLimits,
        *,
        handshake_timeout_s: float,
    ) -> None:
        """Each successful handshake calls `make_protocol`. `limits` counts a connection even before its handshake."""
        self._make_protocol = make_protocol
        self._certificates = certificates
        self._limits = limits
        self._handshake_timeout_s = handshake_timeout_s
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that the listener is bound to. Raises RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the listener has not been started")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str, port: int) -> None:
        """Start listening. Raises OSError if the address cannot be used."""
        self._server = await listen(lambda: Arrival(self._limits, self._connection, _close), host, port)

    def stop_accepting(self) -> None:
        """Stop accepting connections. Open connections stay open."""
        if self._server is not None:
            self._server.close()

    def _connection(self, place: ConnectionPlace) -> TlsConnection:
        return TlsConnection(
            self._certificates.context,
            self._make_protocol,
            handshake_timeout_s=self._handshake_timeout_s,
            on_failed=self._failed,
            on_lost=place.leave,
        )

    def _failed(self, address: str, reason: str) -> None:
        self._limits.failed_tls_handshakes += 1
        logger.info("%s: the TLS handshake failed: %s", address, reason, extra={"client": address})


def _close(transport: asyncio.Transport, _: TooManyConnections) -> None:
    # Sending a reason would need a TLS handshake, which costs too much.
    transport.abort()
