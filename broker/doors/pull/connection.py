"""The HTTP connection that answers `GET /pull/v1/…` itself, below Daphne and ASGI.

Thousands of parked pulls come and go at once: Twisted's request, Daphne's and an ASGI task cost four times as much
(docs/decisions/0015-pulls-below-asgi.md). It takes only what needs no interpretation: a whole head in one piece,
HTTP/1.1, one host that the broker answers to, no word of a web page, no body, a connection that stays. Everything else,
and every other path, is left to Twisted and Daphne byte for byte, and so to the gate in front of the application.
"""

from __future__ import annotations

import re
from typing import Any, Final

from twisted.internet.protocol import connectionDone
from twisted.web.http import RESPONSES

from broker.doors.pull.answers import PullInProgress
from broker.http_server import LimitedConnection

__all__ = ["PullConnection"]

_BEGINNING: Final = b"GET /pull/v1/"
_MAX_HEAD_BYTES: Final = 8 * 1024
_MAX_WAITING_BYTES: Final = 16 * 1024  # of later requests, while one is held; as Twisted's own

# RFC 9112: the request line, then fields without folded lines. A field that says something about a body, an upgrade,
# the end of the connection or the web page that asks does not match.
_HEAD: Final = re.compile(
    rb"GET (/pull/v1/[!-~]*) HTTP/1\.1\r\n"
    rb"(?:(?!(?i:content-length|transfer-encoding|expect|upgrade|origin|sec-fetch-site"
    rb"|connection(?!:[ \t]*keep-alive[ \t]*\r)))"
    rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
)
_HOST: Final = re.compile(rb"\r\n(?i:host):[ \t]*([^\r]*)")


def _response_head(status: int) -> bytes:
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nServer: Vela\r\nContent-Length: %%d\r\n\r\n"
        % (status, RESPONSES.get(status, b"Unknown"))
    )


_OK: Final = _response_head(200)


class PullConnection(LimitedConnection):
    """One HTTP connection. `factory.server.pulls` makes the answers."""

    def __init__(self) -> None:
        super().__init__()
        self._pull: PullInProgress | None = None
        self._waiting = b""  # what came behind a pull without an answer, or before the answer was taken
        self._is_output_full = False
        self._local_address = ""
        self._was_active = False  # since the idle timer was set

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        """The connection is there."""
        super().connectionMade()
        self._local_address = self.transport.getHost().host

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Bytes of requests, however cut."""
        if self.requests or self._is_refused:  # Twisted reads one, or waits for its answer
            super().dataReceived(data)
        elif self._pull is not None or self._is_output_full:
            self._waiting += data
            if len(self._waiting) > _MAX_WAITING_BYTES:
                self.transport.pauseProducing()
        else:
            self._read(self.clearLineBuffer() + data)

    def _read(self, data: bytes) -> None:
        """At the beginning of a request."""
        at = 0
        while data.startswith(_BEGINNING, at) and not self.transport.disconnecting:
            head = _HEAD.match(data, at, at + _MAX_HEAD_BYTES)
            if head is None or not self._is_for_us(data, at, head.end()):
                break
            self.request_arrived()
            at = head.end()
            path, _, query = head[1].decode("ascii").partition("?")
            self._pull = self.factory.server.pulls.begin(path, query, self._respond)
            if self._pull is not None or self._is_output_full:
                self._waiting = data[at:]
                return
        if at < len(data):
            super().dataReceived(data[at:])

    def _is_for_us(self, data: bytes, start: int, end: int) -> bool:
        hosts = _HOST.findall(data, start, end)
        return len(hosts) == 1 and self.factory.server.pulls.gate.takes_host(
            hosts[0].rstrip(b" \t"), self._local_address
        )

    def _respond(self, status: int, body: bytes) -> None:
        head = _OK if status == 200 else _response_head(status)
        self._was_active = True
        self.transport.write(head % len(body) + body)
        if self._pull is not None:  # else `_read` goes on by itself
            self._pull = None
            if not self._is_output_full:
                self._go_on()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, b""
        if len(waiting) > _MAX_WAITING_BYTES:
            self.transport.resumeProducing()
        if waiting:
            self._read(waiting)

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The peer does not take what it asked for: nothing more is read from it, nothing more is answered."""
        self._is_output_full = True
        super().pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """The peer has taken everything."""
        self._is_output_full = False
        super().resumeProducing()
        if self._pull is None:
            self._go_on()

    def timeoutConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Nothing went through Twisted's parser for a minute; pulls do not, so that none of them moves a timer.

        A connection is closed when there was neither a parked pull nor an answer within one to two minutes.
        """
        if self._pull is None and not self._was_active:
            super().timeoutConnection()
        else:
            self._was_active = False
            self.setTimeout(self.timeOut)

    def connectionLost(self, reason: Any = connectionDone) -> None:  # noqa: N802 - Twisted's name
        """Who waited is gone."""
        pull, self._pull = self._pull, None
        self._waiting = b""
        if pull is not None:
            pull.leave()
        super().connectionLost(reason)
