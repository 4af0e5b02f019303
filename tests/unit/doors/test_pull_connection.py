"""The connection that answers pulls below Daphne: what it takes, what it leaves to Twisted, and in which order."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.protocol import connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.http import Request

from broker.conf import BrokerSettings
from broker.doors.pull.answers import Respond
from broker.doors.pull.connection import PullConnection
from broker.doors.web_gate import WebGate
from broker.listening.connection_limits import ConnectionLimits
from broker.listening.loop_time import LoopTime

HOST = b"Host: vela\r\n"
GATE = WebGate(BrokerSettings.from_environment({"VELA_ALLOWED_HOSTS": "vela"}))
LARGE = 100_000  # bytes of an answer; the transport says that it is full before it has taken them all


@dataclass
class Held:
    """A pull in progress."""

    respond: Respond
    has_left: bool = False

    def leave(self) -> None:
        self.has_left = True


@dataclass
class ScriptedPulls:
    """Holds a pull of `?held`, answers `?large` with much data, and anything else with its own path and query."""

    asked: list[str] = field(default_factory=list)
    authorizations: list[bytes | None] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    gate: WebGate = field(default_factory=lambda: GATE)

    def begin_for(
        self,
        authorization: bytes | None,
        path: str,
        query: str,
        respond: Respond,
        *,
        address: str,
        certificate: object,
    ) -> Held | None:
        self.asked.append(f"{path}?{query}")
        self.authorizations.append(authorization)
        if query == "held":
            self.held.append(Held(respond))
            return self.held[-1]
        respond(*self.answer(path, query))
        return None

    def answer(self, path: str, query: str) -> tuple[int, bytes]:
        if query == "large":
            return 200, bytes(LARGE)
        return (400 if query == "bad" else 200), f"{path}?{query}".encode()


class ByTwisted(Request):
    """Serves the requests left to Twisted, with the same answers as below it, so that the two can be compared."""

    seen: list[bytes] = []  # noqa: RUF012 - of all requests, cleared by each test

    def process(self) -> None:
        self.seen.append(self.method + b" " + self.uri)
        path, _, query = self.uri.decode("latin-1").partition("?")
        status, body = ScriptedPulls().answer(path, query)
        self.setResponseCode(status)
        self.responseHeaders.setRawHeaders("content-length", [str(len(body))])
        self.write(body)
        self.finish()


class HalfClosable(StringTransport):
    """A transport whose half-closed connections count as closed."""

    def loseWriteConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.loseConnection()


class Peer:
    """One connection without a network."""

    def __init__(self) -> None:
        ByTwisted.seen.clear()
        self.pulls = ScriptedPulls()
        self.clock = Clock()
        self.connection = cast(Any, PullConnection())  # Any, because the test replaces its clock and log
        self.connection.factory = SimpleNamespace(
            server=SimpleNamespace(pulls=self.pulls),
            log=lambda _: None,
            limits=ConnectionLimits(BrokerSettings(), LoopTime(now_ns=lambda: 0)),
            request_timeout_s=30,
            unfinished={},
        )
        self.connection.requestFactory = ByTwisted
        self.connection.callLater = self.clock.callLater
        self.connection.timeOut = 60
        self.transport: Any = cast(Any, HalfClosable())
        self.transport.is_secure = False
        self.transport.certificate = None
        self.connection.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        self.connection.dataReceived(data)

    def answers(self) -> list[tuple[int, bytes]]:
        """Return status and body of each answer written since the last call."""
        data = self.transport.value()
        self.transport.clear()
        found = []
        while data:
            head, _, rest = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            size = int(length[1]) if length is not None else 0
            found.append((int(head.split()[1]), rest[:size]))
            data = rest[size:]
        return found

    def is_reading(self) -> bool:
        return bool(self.transport.producerState == "producing")


def get(target: str, *fields: bytes, version: bytes = b"1.1", method: bytes = b"GET") -> bytes:
    lines = b"".join(each + b"\r\n" for each in fields)
    return method + b" " + target.encode() + b" HTTP/" + version + b"\r\n" + HOST + lines + b"\r\n"


def pull(query: str, *fields: bytes) -> bytes:
    return get(f"/pull/v1/a/b/c?{query}", *fields)


def test_a_pull_is_answered_with_one_write_and_the_connection_stays() -> None:
    peer = Peer()
    for query in ("one", "two"):
        peer.send(pull(query, b"Connection: keep-alive", b"User-Agent: x/1", b"Accept: */*"))
        assert peer.transport.value().startswith(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        assert peer.answers() == [(200, f"/pull/v1/a/b/c?{query}".encode())]
    peer.send(pull("bad"))
    assert peer.answers() == [(400, b"/pull/v1/a/b/c?bad")]
    assert ByTwisted.seen == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/healthz"),
        get("/pull/v1-offset/a/b/c?subscription=g"),
        get("/pull/v1/a/b/c?x", method=b"HEAD"),
        get("/pull/v1/a/b/c?x", method=b"POST"),
        get("/pull/v1/a/b/c?x", version=b"1.0"),
        pull("x", b"Connection: close"),
        pull("x", b"connection: upgrade"),
        pull("x", b"Connection: keep-alive, close"),
        pull("x", b"Upgrade: websocket"),
        pull("x", b"Content-Length: 3") + b"abc",
        pull("x", b"transfer-encoding: chunked") + b"0\r\n\r\n",
        pull("x", b"Expect: 100-continue"),
        pull("x", b"A: 1", b" folded"),
        pull("x", b"Origin: http://vela"),
        pull("x", b"sec-fetch-site: none"),
        pull("x", b"Host: vela"),
        b"GET /pull/v1/a/b/c?x HTTP/1.1\r\nHost: other\r\n\r\n",
        b"GET /pull/v1/a/b/c?x HTTP/1.1\r\nAccept: */*\r\n\r\n",
        pull("x", *[b"X-%d: %s" % (number, b"y" * 90) for number in range(100)]),
    ],
)
def test_unusual_requests_are_left_to_twisted(request_bytes: bytes) -> None:
    peer = Peer()
    peer.send(request_bytes)
    assert peer.pulls.asked == []
    assert len(ByTwisted.seen) == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /pull/v1/a/b/c HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /pull/v1/a/b/c HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /pull/v1/a/b/c HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
        b"GET /pull/v1/a b/c HTTP/1.1\r\n\r\n",
        b"GET /pull/v1/" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_a_broken_head_is_refused_as_twisted_does(request_bytes: bytes) -> None:
    peer = Peer()
    peer.send(request_bytes)
    assert peer.pulls.asked == []
    assert {status for status, _ in peer.answers()} <= {400}  # a line without an end gets no answer at all
    assert peer.transport.disconnecting


PIECES = [
    pull("one"),
    pull("bad", b"Connection: keep-alive"),
    get("/healthz"),
    get("/pull/v1/a/b/c?x", b"Content-Length: 3", method=b"POST") + b"GET",
    pull("chunks", b"Transfer-Encoding: chunked") + b"3\r\nGET\r\n0\r\n\r\n",
]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.data())
def test_any_sequence_cut_anywhere_is_answered_in_order(pieces: list[bytes], data: st.DataObject) -> None:
    """Requests may be pipelined or come byte by byte. Either Twisted or the code below it answers."""
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    peer = Peer()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        if start < end:
            peer.send(whole[start:end])
    alone = []
    for piece in pieces:
        single = Peer()
        single.send(piece)
        alone += single.answers()
    assert peer.answers() == alone


def test_a_request_behind_a_parked_pull_waits_for_it() -> None:
    peer = Peer()
    peer.send(pull("held") + pull("second"))
    peer.send(pull("held") + get("/healthz"))
    assert peer.answers() == []
    peer.pulls.held[0].respond(200, b"woken")
    assert peer.answers() == [(200, b"woken"), (200, b"/pull/v1/a/b/c?second")]
    assert ByTwisted.seen == []
    peer.pulls.held[1].respond(200, b"again")
    assert peer.answers() == [(200, b"again"), (200, b"/healthz?")]


def test_a_flood_behind_a_parked_pull_is_not_read() -> None:
    peer = Peer()
    peer.send(pull("held"))
    peer.send(pull("x" * 1000) * 16)
    assert not peer.is_reading()
    peer.pulls.held[0].respond(200, b"")
    assert peer.is_reading()
    assert len(peer.answers()) == 17


def test_a_client_that_does_not_read_answers_gets_no_more() -> None:
    """While an answer is written, the transport says that it is full. Later requests wait until it has room again."""
    peer = Peer()
    original = peer.transport.write

    def write(data: bytes) -> None:
        original(data)
        if len(data) > LARGE:
            peer.connection.pauseProducing()

    peer.transport.write = write
    peer.send(pull("large") * 50)
    for number in range(1, 50):
        assert len(peer.pulls.asked) == number
        peer.send(b"")
        peer.connection.resumeProducing()
    assert [len(body) for _, body in peer.answers()] == [LARGE] * 50


@pytest.mark.row("S3.14")
def test_the_broker_learns_that_a_parked_client_has_left() -> None:
    peer = Peer()
    peer.send(pull("held") + pull("second"))
    peer.connection.connectionLost(connectionDone)
    assert peer.pulls.held[0].has_left
    assert peer.pulls.asked == ["/pull/v1/a/b/c?held"]


def test_a_connection_with_a_parked_pull_is_kept_and_an_idle_one_is_closed() -> None:
    peer = Peer()
    peer.send(pull("held"))
    for _ in range(20):
        peer.clock.advance(30)
    assert not peer.transport.disconnecting
    peer.pulls.held[0].respond(200, b"")
    peer.clock.pump([1] * 59)
    assert not peer.transport.disconnecting
    peer.clock.pump([1] * 61)
    assert peer.transport.disconnecting
    assert len(peer.answers()) == 1
