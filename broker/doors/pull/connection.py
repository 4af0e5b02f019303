"""The HTTP connection that answers `GET /pull/v1/…` itself, without Daphne and ASGI.

Through Daphne and ASGI, a pull would take four times the CPU time. Daphne answers all other requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from twisted.internet.protocol import connectionDone

from broker.core.errors import TooManyRequests
from broker.doors.asgi import json_reason
from broker.doors.pull.answers import MustWait, PullInProgress
from broker.http_server import LimitedConnection

__all__ = ["PullConnection"]

_BEGINNING: Final = b"GET /pull/v1/"
_MAX_HEAD_BYTES: Final = 8 * 1024
_MAX_WAITING_BYTES: Final = 16 * 1024

# A request head as in RFC 9112, without folded lines. A request with a field that needs Daphne does not match.
_HEAD: Final = re.compile(
    rb"GET (/pull/v1/[!-~]*) HTTP/1\.1\r\n"
    rb"(?:(?!(?i:content-length|transfer-encoding|expect|upgrade|origin|sec-fetch-site"
    rb"|x-pulsar-auth-method-name|x-original-principal|connection(?!:[ \t]*keep-alive[ \t]*\r)))"
    rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
)
_HOST: Final = re.compile(rb"\r\n(?i:host):[ \t]*([^\r]*)")
_AUTHORIZATION: Final = re.compile(rb"\r\n(?i:authorization):[ \t]*([^\r]*)")


def _response_head(status: int, more: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    fields = b"".join(b"%b: %b\r\n" % field for field in more)
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nServer: Vela\r\n%bContent-Length: %%d\r\n\r\n"
        % (status, HTTPStatus(status).phrase.encode(), fields)
    )


_OK: Final = _response_head(200)


class PullConnection(LimitedConnection):
    """An HTTP connection that answers pulls itself."""

    def __init__(self) -> None:
        super().__init__()
        self._pull: PullInProgress | None = None
        self._waiting = b""
        self._is_out_of_turn = False
        self._is_output_full = False
        self._local_address = ""
        self._address = ""
        self._was_active = False
        self._is_counted = False

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        super().connectionMade()
        self._local_address = self.transport.getHost().host
        client = self.transport.getPeer()
        self._address = f"{client.host}:{client.port}"

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        if self.requests or self._is_refused:
            super().dataReceived(data)
        elif self._pull is not None or self._is_output_full or self._is_out_of_turn:
            self._waiting += data
            if len(self._waiting) > _MAX_WAITING_BYTES:
                self.transport.pauseProducing()
        else:
            self._read(self.clearLineBuffer() + data)

    def _read(self, data: bytes) -> None:
        """Handle data that starts at the beginning of a request."""
        if not self.share.begins(self._turn_came):
            self._is_out_of_turn = True
            self._waiting = data
            return
        at = 0
        while data.startswith(_BEGINNING, at) and not self.transport.disconnecting:
            head = _HEAD.match(data, at, at + _MAX_HEAD_BYTES)
            if head is None or not self._is_for_us(data, at, head.end()):
                break
            try:
                self._begin(head, data)
            except MustWait:
                self._is_counted = True
                break
            at = head.end()
            self._is_out_of_turn = not self.share.goes_on(self._turn_came)
            if self._pull is not None or self._is_output_full or self._is_out_of_turn:
                self._waiting = data[at:]
                self.share.ends()
                return
        self.share.ends()
        if at < len(data):
            super().dataReceived(data[at:])

    def _begin(self, head: re.Match[bytes], data: bytes) -> None:
        try:
            self.count_request()
        except TooManyRequests as error:
            self.request_arrived()
            self._respond(429, json_reason(str(error)))
            return
        path, _, query = head[1].decode("ascii").partition("?")
        credentials = _AUTHORIZATION.search(data, head.start(), head.end())
        self._pull = self.factory.server.pulls.begin_for(
            None if credentials is None else credentials[1],
            path,
            query,
            self._respond,
            address=self._address,
            certificate=self.certificate,
        )
        self.request_arrived()

    def count_request(self) -> None:
        """Count the request, unless `_begin` has already counted it."""
        is_counted, self._is_counted = self._is_counted, False
        if not is_counted:
            super().count_request()

    def _is_for_us(self, data: bytes, start: int, end: int) -> bool:
        hosts = _HOST.findall(data, start, end)
        if len(_AUTHORIZATION.findall(data, start, end)) > 1:
            return False
        return len(hosts) == 1 and self.factory.server.pulls.gate.takes_host(
            hosts[0].rstrip(b" \t"), self._local_address
        )

    def _respond(self, status: int, body: bytes) -> None:
        challenge = self.factory.server.pulls.challenge if status == 401 else ()
        head = _OK if status == 200 else _response_head(status, challenge)
        self._was_active = True
        self.transport.write(head % len(body) + body)
        # If `_pull` is None, `_read` is still running and handles the next request.
        if self._pull is not None:
            self._pull = None
            if not self._is_output_full and not self._is_out_of_turn:
                self._go_on()

    def _turn_came(self) -> None:
        self._is_out_of_turn = False
        if self._pull is None and not self._is_output_full:
            self._go_on()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, b""
        if len(waiting) > _MAX_WAITING_BYTES:
            self.transport.resumeProducing()
        if waiting:
            self._read(waiting)

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._is_output_full = True
        super().pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self._is_output_full = False
        super().resumeProducing()
        if self._pull is None and not self._is_out_of_turn:
            self._go_on()

    def timeoutConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Close the connection, unless a pull is in progress or was answered since the last timeout.

        Twisted's parser restarts the idle timer, but pulls bypass the parser.
        """
        if self._pull is None and not self._was_active:
            super().timeoutConnection()
        else:
            self._was_active = False
            self.setTimeout(self.timeOut)

    def connectionLost(self, reason: Any = connectionDone) -> None:  # noqa: N802 - Twisted's name
        pull, self._pull = self._pull, None
        self._waiting = b""
        if pull is not None:
            pull.leave()
        super().connectionLost(reason)
