"""The binary protocol over TCP, encrypted or not."""

from __future__ import annotations

import asyncio
import socket
import ssl

from vela.aio.transports.byte_transport import ByteReceiver
from vela.core.service_url import BrokerAddress

__all__ = ["TcpTransport", "connect_socket", "open_tcp"]


class TcpTransport(asyncio.Protocol):
    """A `ByteTransport` that is an asyncio protocol."""

    def __init__(self, receiver: ByteReceiver) -> None:
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._receiver.on_reached()

    def data_received(self, data: bytes) -> None:
        self._receiver.on_bytes(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.on_lost(exc)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Do nothing, because TCP has no messages."""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def open_tcp(
    address: BrokerAddress, receiver: ByteReceiver, *, tls: ssl.SSLContext | None, no_delay: bool
) -> TcpTransport:
    """Connect, including the TLS handshake. Raises OSError, such as ssl.SSLError."""
    transport = TcpTransport(receiver)
    await connect_socket(address, transport, tls=tls, no_delay=no_delay)
    return transport


async def connect_socket(
    address: BrokerAddress, protocol: asyncio.Protocol, *, tls: ssl.SSLContext | None, no_delay: bool
) -> None:
    """Connect `protocol` to an address. Tries the host's IP addresses one after the other.

    It does not try several at the same time: if such an attempt is cancelled, Python 3.11 can leave a socket open.
    """
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: protocol,
        address.host,
        address.port,
        ssl=tls,
        server_hostname=address.host if tls is not None else None,
    )
    # asyncio sets TCP_NODELAY on every TCP socket, so switch it off if it is not wanted.
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(no_delay))
