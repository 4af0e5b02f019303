"""A Twisted transport over an asyncio transport, for Daphne's protocols on TLS connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from broker.listening.tls_certificates import client_certificate

if TYPE_CHECKING:
    from twisted.internet.interfaces import IProtocol

    from broker.core.access.credentials import ClientCertificate

__all__ = ["TwistedTransport"]

_HIGH_WATER_BYTES: Final = 64 * 1024


@implementer(ITransport, IConsumer, IPushProducer)
class TwistedTransport(asyncio.Protocol):
    """A protocol for asyncio and a transport for Twisted."""

    is_secure = True

    def __init__(self, build_protocol: Callable[[Any], IProtocol]) -> None:
        """`build_protocol` gets the peer's address and returns the Twisted protocol."""
        self._build_protocol = build_protocol
        self._producer: Any = None
        self.protocol: Any = None  # Daphne replaces this protocol when a request becomes a WebSocket
        self.connected = True
        self.disconnecting = False
        self.disconnected = False
        self.certificate: ClientCertificate | None = None

    # -- Called by asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES, low=0)
        self._peer = _address(transport.get_extra_info("peername"))
        self._host = _address(transport.get_extra_info("sockname"))
        self.certificate = client_certificate(transport.get_extra_info("peercert"))
        self.protocol = self._build_protocol(self._peer)
        self.protocol.makeConnection(self)

    def data_received(self, data: bytes) -> None:
        self.protocol.dataReceived(data)

    def pause_writing(self) -> None:
        if self._producer is not None:
            self._producer.pauseProducing()

    def resume_writing(self) -> None:
        if self._producer is not None:
            self._producer.resumeProducing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connected, self.disconnected = False, True
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        why = ConnectionDone() if exc is None else ConnectionLost(str(exc))
        self.protocol.connectionLost(Failure(why))  # type: ignore[no-untyped-call]

    # -- Called by Twisted ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802 - Twisted's name
        self._transport.writelines(data)

    def loseConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.disconnecting = True
        self._transport.close()

    def loseWriteConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Do nothing, because the asyncio transport is a `TlsConnection`, which cannot close only one direction."""

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.disconnecting = True
        self._transport.abort()

    def getPeer(self) -> IPv4Address | IPv6Address:  # noqa: N802 - Twisted's name
        return self._peer

    def getHost(self) -> IPv4Address | IPv6Address:  # noqa: N802 - Twisted's name
        return self._host

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802 - Twisted's name
        # Daphne uses streaming producers only.
        assert streaming
        if self.disconnected:
            producer.stopProducing()
        else:
            self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802 - Twisted's name
        self._producer = None

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.loseConnection()


def _address(found: tuple[Any, ...]) -> IPv4Address | IPv6Address:
    if len(found) == 4:
        return IPv6Address("TCP", *found)
    return IPv4Address("TCP", *found)
