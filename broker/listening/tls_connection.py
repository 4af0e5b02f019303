"""TLS between a socket and an application protocol."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

__all__ = ["TlsConnection"]

_READ_BYTES: Final = 64 * 1024
_LINGER_S: Final = 5.0  # Time limit for sending the TLS alert after a failed handshake


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """The TLS layer between a socket's transport and an application protocol."""

    def __init__(
        self,
        context: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        handshake_timeout_s: float,
        on_failed: Callable[[str, str], None],
        on_lost: Callable[[], None],
    ) -> None:
        """`on_failed` gets the address and reason of a failed handshake. `on_lost` is called when the socket closes."""
        super().__init__()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._make_protocol = make_protocol
        self._protocol: asyncio.Protocol | None = None  # None until the handshake is done
        self._handshake_timeout_s = handshake_timeout_s
        self._on_failed = on_failed
        self._on_lost = on_lost
        self._is_closing = False
        self._is_reading = True
        self._is_continuing = False

    # -- Called by the socket's transport ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(self._handshake_timeout_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._incoming.write(data)
        if self._protocol is None:
            self._shake_hands()
        if self._protocol is not None:
            self._read()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        if self._protocol is not None:
            self._protocol.connection_lost(exc)
        elif not self._is_closing:
            self._on_failed(self._address(), "the client closed the connection")
        self._is_closing = True
        self._on_lost()

    # -- Handshake -----------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
        except ssl.SSLError as error:
            self._send_encrypted()  # This sends the TLS alert
            self._fail(error.reason or str(error))
        else:
            self._timer.cancel()
            self._send_encrypted()
            self._protocol = self._make_protocol()
            self._protocol.connection_made(self)

    def _too_slow(self) -> None:
        self._fail(f"not done within {self._handshake_timeout_s:g} s")

    def _fail(self, reason: str) -> None:
        self._is_closing = True
        self._timer.cancel()
        self._on_failed(self._address(), reason)
        self._transport.close()
        self._loop.call_later(_LINGER_S, self._transport.abort)

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername") or ("unknown", 0)
        return f"{peer[0]}:{peer[1]}"

    # -- Decrypted bytes -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        protocol = self._protocol
        assert protocol is not None
        while self._is_reading and not self._is_closing:
            try:
                data = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:
                data = b""
            if not data:  # The peer ended or broke the TLS session
                self.close()
                return
            protocol.data_received(data)
        self._send_encrypted()

    def _continue(self) -> None:
        self._is_continuing = False
        if not self._is_closing:
            self._read()

    def _send_encrypted(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    # -- Called by the application protocol ---------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            return self._tls.getpeercert()
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._is_closing:
            return
        data = b"".join(list_of_data)
        if not data:
            return
        view, at = memoryview(data), 0
        try:
            while at < len(view):
                at += self._tls.write(view[at:])
        except ssl.SSLError:
            self.abort()
            return
        self._send_encrypted()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_reading or self._is_closing:
            return
        self._is_reading = True
        self._transport.resume_reading()
        # Bytes that arrived before the pause cause no new call of `data_received`.
        if not self._is_continuing:
            self._is_continuing = True
            self._loop.call_soon(self._continue)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        with contextlib.suppress(ssl.SSLError):  # Do not wait for the peer's close alert
            self._tls.unwrap()
        self._send_encrypted()
        self._transport.close()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()
