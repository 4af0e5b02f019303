"""TLS between a TCP connection and a protocol, over `ssl.MemoryBIO`.

asyncio does the same in its own `start_tls`, and Twisted with pyOpenSSL. This module replaces both:
docs/decisions/0033-tls-in-the-broker.md has the reasons and the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

__all__ = ["TlsConnection"]

_READ_BYTES: Final = 64 * 1024
_LINGER_S: Final = 5.0  # how long the alert may remain unsent after a failed handshake


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """A protocol for the socket's transport below, and a transport for the protocol above.

    Written bytes are encrypted at once and passed to the transport below, whose flow control reaches the protocol
    above. The protocol above gets `connection_made` after the handshake, and no call if the handshake fails.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        handshake_timeout_s: float,
        on_failed: Callable[[str, str], None],
        on_lost: Callable[[], None],
    ) -> None:
        """`on_failed` gets the address and reason of a failed handshake; `on_lost` is called when the socket closes."""
        super().__init__()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._make_protocol = make_protocol
        self._protocol: asyncio.Protocol | None = None  # set by the handshake
        self._handshake_timeout_s = handshake_timeout_s
        self._on_failed = on_failed
        self._on_lost = on_lost
        self._is_closing = False
        self._is_reading = True
        self._is_continuing = False  # a read of bytes that have already arrived is scheduled

    # -- from the socket -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's first message of the handshake."""
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(self._handshake_timeout_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Carry on with the handshake, or decrypt the bytes. Ignored after `close`."""
        if self._is_closing:
            return
        self._incoming.write(data)
        if self._protocol is None:
            self._shake_hands()
        if self._protocol is not None:
            self._read()

    def pause_writing(self) -> None:
        """Tell the protocol above that the peer receives more slowly than the protocol writes."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Tell the protocol above that enough of the written bytes have left this process."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol above. If the handshake was still under way, report that it failed."""
        self._timer.cancel()
        if self._protocol is not None:
            self._protocol.connection_lost(exc)
        elif not self._is_closing:
            self._on_failed(self._address(), "the client closed the connection")
        self._is_closing = True
        self._on_lost()

    # -- the handshake -------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
        except ssl.SSLError as error:
            self._send_encrypted()  # the alert, which tells the client why
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

    # -- decrypted bytes -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        protocol = self._protocol
        assert protocol is not None
        while self._is_reading and not self._is_closing:
            try:
                data = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:  # the peer broke TLS; `close` sends the alert
                data = b""
            if not data:  # no data also means that the peer has closed TLS
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

    # -- for the protocol above ----------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact from the socket's transport.

        `peercert` is the client's checked certificate; {} or None if there is none.
        """
        if name == "peercert":
            return self._tls.getpeercert()
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass the decrypted bytes to another protocol from now on."""
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol above. Valid after the handshake."""
        assert self._protocol is not None
        return self._protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send. Ignored after `close`."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt all the data and send it with one write. Ignored after `close`."""
        if self._is_closing:
            return
        data = b"".join(list_of_data)  # a record for each small piece would cost more than the copy
        if not data:
            return
        view, at = memoryview(data), 0
        try:
            while at < len(view):
                at += self._tls.write(view[at:])
        except ssl.SSLError:  # TLS is broken; after `abort`, the transport below reports the loss
            self.abort()
            return
        self._send_encrypted()

    def can_write_eof(self) -> bool:
        """Return False: `close` closes both directions at once."""
        return False

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes still wait in this process."""
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many encrypted bytes may wait before the protocol above is paused, and when it is resumed."""
        self._transport.set_write_buffer_limits(high, low)

    def is_reading(self) -> bool:
        """Return False while reading is paused, and after `close`."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Stop reading. Safe to repeat."""
        self._is_reading = False
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, first the bytes that have already arrived. Safe to repeat."""
        if self._is_reading or self._is_closing:
            return
        self._is_reading = True
        self._transport.resume_reading()
        if not self._is_continuing:
            self._is_continuing = True
            self._loop.call_soon(self._continue)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        """Send the written bytes and TLS's close alert, then close. Safe to repeat."""
        if self._is_closing:
            return
        self._is_closing = True
        with contextlib.suppress(ssl.SSLError):  # the peer's close alert has not arrived, and is not needed
            self._tls.unwrap()
        self._send_encrypted()
        self._transport.close()

    def abort(self) -> None:
        """Close immediately and drop unsent bytes. Safe to repeat."""
        self._is_closing = True
        self._transport.abort()
