"""Find out which protocol a port speaks if the URL seems to name the wrong one, so that an error can say so.

The failed attempt does not show the protocol. A server that does not understand the client's bytes usually closes
without an answer, or waits for more bytes. A server that is starting looks the same. The requests made here contain no
credentials.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final

from vela.core.first_words import begins_a_frame, speaks_something_else
from vela.core.service_url import BrokerAddress
from vela.wire.binary.client import ClientEngine

__all__ = ["other_door"]

_ANSWER_S: Final = 1.0
"""How long to wait for an answer."""
_FIRST_BYTES: Final = 32  # how many bytes of an answer to read
_HTTP: Final = re.compile(rb"HTTP/1")
_WITHOUT_TLS: Final = re.compile(rb"HTTP/1\.\d (?!400|3)")
"""Not 400 or 3xx: many servers that want TLS answer plain HTTP with an error or a redirection."""


async def other_door(address: BrokerAddress, *, client_version: str) -> str | None:
    """Return what is wrong with this address, or None if its URL is right or the protocol is unknown.

    Waits at most `_ANSWER_S`. Raises nothing. If this call is cancelled, no connection stays open.
    """
    if address.tls:
        return await _without_tls(address, client_version)
    is_websocket = address.websocket_path is not None
    other = _frames(address, client_version) if is_websocket else _http(address)
    is_tls, first = await asyncio.gather(_speaks_tls(address), other)
    if is_tls:
        scheme = "wss://" if is_websocket else "pulsar+ssl://"
        return f"{address.url}: the server speaks TLS; use a URL that begins with {scheme}"
    if is_websocket and begins_a_frame(first):
        return speaks_something_else(address.url, first, wanted="WebSocket")
    if not is_websocket and _HTTP.match(first):
        return speaks_something_else(address.url, first, wanted="the protocol")
    return None


async def _without_tls(address: BrokerAddress, client_version: str) -> str | None:
    frames, http = await asyncio.gather(_frames(address, client_version), _http(address))
    if begins_a_frame(frames):
        port, scheme = "TCP", "pulsar://"
    elif _WITHOUT_TLS.match(http):
        port, scheme = "HTTP", "ws://"
    else:
        return None
    return (
        f"{address.url}: the server does not speak TLS; the URL of a broker's {port} port without TLS begins with "
        f"{scheme}"
    )


async def _frames(address: BrokerAddress, client_version: str) -> bytes:
    """Return the first bytes of the answer to CONNECT."""
    engine = ClientEngine(client_version=client_version)
    return await _first_bytes(
        address, engine.connect(auth_method=None, auth_data=None, proxy_to_broker_url=None)
    )


async def _http(address: BrokerAddress) -> bytes:
    """Return the first bytes of the answer to a WebSocket upgrade."""
    head = (
        f"GET {address.websocket_path or '/'} HTTP/1.1",
        f"Host: {address}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    return await _first_bytes(address, "\r\n".join((*head, "", "")).encode())


async def _first_bytes(address: BrokerAddress, hello: bytes) -> bytes:
    """Send these bytes without TLS, and return the first bytes of the answer, b"" = none."""
    writer = None
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(hello)
            return await reader.read(_FIRST_BYTES)
    except OSError:  # includes TimeoutError
        return b""
    finally:
        if writer is not None:
            writer.transport.abort()


async def _speaks_tls(address: BrokerAddress) -> bool:
    """Return whether the server speaks TLS, even if it refuses the handshake. Accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_ANSWER_S):
            _, writer = await asyncio.open_connection(
                address.host, address.port, ssl=context, server_hostname=address.host
            )
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    writer.transport.abort()
    return True
