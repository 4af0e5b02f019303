"""Try once to connect. Errors before CONNECTED name their cause."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final

from vela.aio.connections.other_door import other_door
from vela.aio.connections.tls import why_tls_failed
from vela.aio.transports.tcp import open_tcp
from vela.aio.transports.websocket import open_websocket
from vela.errors import ConnectError, HandshakeError

if TYPE_CHECKING:
    from vela.aio.connections.connection import Connection
    from vela.aio.connections.settings import ConnectionSettings
    from vela.aio.transports.byte_transport import ByteTransport
    from vela.core.service_url import BrokerAddress

__all__ = ["open_connection"]

_PATIENCE_S: Final = 1.0
"""After this time without an answer, find out which other protocol the port speaks, while the attempt continues."""


async def open_connection(
    connection: Connection,
    address: BrokerAddress,
    settings: ConnectionSettings,
    *,
    proxy_to_broker_url: str | None,
    was_right: bool,
) -> None:
    """Connect within `connection_timeout_s`. After an error nothing stays open.

    `was_right`: an earlier connection to this address succeeded, so its URL is right. Raises HandshakeError (the port
    speaks another protocol, the certificate is not trusted), ConnectError for another OSError, and the errors of
    `Connection.open`.
    """
    doubt = _Doubt(connection, address, settings.client_version)
    try:
        async with asyncio.timeout(settings.connection_timeout_s) as limit:
            if not was_right:
                doubt.begin(limit)
            try:
                await _open(connection, address, settings, proxy_to_broker_url)
            finally:
                doubt.end()
    except TimeoutError:
        if doubt.refusal is not None:
            raise HandshakeError(doubt.refusal) from None
        raise ConnectError(
            f"not connected within {settings.connection_timeout_s:g} s: {connection.standing}"
        ) from None
    except ConnectError as error:
        if not was_right and _hung_up(connection, address, error):
            refusal = await other_door(address, client_version=settings.client_version)
            if refusal is not None:
                raise HandshakeError(refusal) from error
        raise


class _Doubt:
    """Finds out which protocol a silent port speaks, and ends the attempt if the URL names another protocol."""

    def __init__(self, connection: Connection, address: BrokerAddress, client_version: str) -> None:
        self.refusal: str | None = None
        """The text of the error; None = no other protocol was found."""
        self._connection = connection
        self._address = address
        self._client_version = client_version
        self._task: asyncio.Task[None] | None = None

    def begin(self, limit: asyncio.Timeout) -> None:
        """Start. `limit` is the timeout of the attempt."""
        self._task = asyncio.get_running_loop().create_task(self._ask(limit))

    def end(self) -> None:
        """Stop, because the attempt is over."""
        if self._task is not None:
            self._task.cancel()

    async def _ask(self, limit: asyncio.Timeout) -> None:
        await asyncio.sleep(_PATIENCE_S)
        if self._is_silent():
            refusal = await other_door(self._address, client_version=self._client_version)
            if refusal is not None and self._is_silent() and not limit.expired():
                self.refusal = refusal
                limit.reschedule(asyncio.get_running_loop().time())

    def _is_silent(self) -> bool:
        connection = self._connection
        return not (connection.is_answered or (connection.is_reached and self._address.tls))


def _hung_up(connection: Connection, address: BrokerAddress, error: ConnectError) -> bool:
    """Return whether the server hung up so early that the port may speak another protocol."""
    if isinstance(error, HandshakeError) or connection.is_answered:
        return False
    if connection.is_reached:
        return not address.tls
    return isinstance(error.__cause__, ConnectionResetError | ssl.SSLError)


async def _open(
    connection: Connection,
    address: BrokerAddress,
    settings: ConnectionSettings,
    proxy_to_broker_url: str | None,
) -> None:
    tls = settings.tls if address.tls else None
    opener = open_tcp if address.websocket_path is None else open_websocket

    async def open_transport(receiver: Connection) -> ByteTransport:
        return await opener(address, receiver, tls=tls, no_delay=settings.tcp_no_delay)

    try:
        await connection.open(
            open_transport,
            proxy_to_broker_url=proxy_to_broker_url,
            keep_alive_interval_s=settings.keep_alive_interval_s,
        )
    except ssl.SSLCertVerificationError as error:
        raise HandshakeError(
            f"{address.url}: its certificate is not trusted: {error.verify_message}"
        ) from error
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        raise ConnectError(f"no connection to {address.url}: {error}") from error
    except ssl.SSLError as error:
        raise HandshakeError(f"{address.url}: the TLS handshake failed: {why_tls_failed(error)}") from error
    except OSError as error:
        reason = str(error) or "the server closed the connection during the TLS handshake; is the port right?"
        raise ConnectError(f"no connection to {address.url}: {reason}") from error
