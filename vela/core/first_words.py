"""Describe how far a new connection got, and which data it got instead of the expected handshake."""

from __future__ import annotations

from typing import Final

__all__ = ["FirstWords", "begins_a_frame", "speaks_something_else"]

_SHOWN_BYTES: Final = 32
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # alert and handshake records of TLS 1.x
_FRAME: Final = b"\0"  # first byte of a frame of the binary protocol, which begins with its size


def begins_a_frame(first: bytes) -> bool:
    """Return whether these may be the first bytes of the binary protocol. False if there are none."""
    return first.startswith(_FRAME)


def speaks_something_else(url: str, first: bytes, *, wanted: str) -> str:
    """Describe an address whose first bytes are not those of the `wanted` protocol."""
    if first.startswith(b"HTTP/"):
        advice = (
            "that is HTTP; the URL of a broker's HTTP port begins with ws://, or with wss:// if it speaks TLS"
        )
    elif first.startswith(_TLS_RECORDS):
        advice = "that is TLS; the URL of an encrypted port begins with pulsar+ssl:// or wss://"
    else:
        advice = "the URL of a broker's TCP port begins with pulsar://, that of its HTTP port with ws://"
    return f"{url} does not speak {wanted}; is the port right? It sent {first[:_SHOWN_BYTES]!r}: {advice}"


class FirstWords:
    """How far a new connection got, and the first bytes that the server sent."""

    __slots__ = ("_first", "_url", "_with_tls", "is_answered", "is_reached")

    def __init__(self, url: str) -> None:
        self.is_reached = False
        """A server has accepted the connection."""
        self.is_answered = False
        """Data has arrived, of this protocol or another."""
        self._url = url
        self._with_tls = ", including TLS" if url.startswith(("pulsar+ssl:", "wss:")) else ""
        self._first = b""

    def begin_a_frame(self, data: bytes) -> bool:
        """Take the next bytes. Return False if they cannot begin a frame."""
        self.is_answered = True
        self._first += data[: _SHOWN_BYTES - len(self._first)]
        return not self._first or begins_a_frame(self._first)

    @property
    def refusal(self) -> str:
        """Return why the handshake failed."""
        return speaks_something_else(self._url, self._first, wanted="the protocol")

    @property
    def standing(self) -> str:
        """Return how far the connection got."""
        if not self.is_reached:
            return f"the connection to {self._url} is not open yet{self._with_tls}"
        return f"{self._url} {self.progress}"

    @property
    def progress(self) -> str:
        """Return what the server has done so far. Use it only for a server that was reached."""
        if not self.is_answered:
            text = "accepted the connection but did not answer; is the port right?"
            # A server refuses a missing certificate after the client's part of the handshake, often without sending
            # anything.
            return f"{text} Or does it require a client certificate?" if self._with_tls else text
        if not self._first:
            return "speaks WebSocket but did not begin the handshake; is it Vela's address, and is the path right?"
        return f"began with {self._first!r} and did not finish the handshake"
