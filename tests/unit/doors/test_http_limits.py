"""How much a peer may send over HTTP and how long it may take, tested against a listening server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

import pytest
import websockets

from broker import http_server
from broker.doors.http.daphne_server import DaphneServer
from broker.doors.pull.answers import MustWait
from broker.http_server import MAX_BODY_BYTES
from tests.support.waiting import wait_until
from tests.unit.doors.daphne_thread import DaphneThread

TIMEOUT_S = 0.3
HEAD = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n"
UNFINISHED = {
    "half a request line": b"GET /met",
    "half a head": HEAD,
    "half a pull": b"GET /pull/v1/persistent/public/default/orders?queue=0 HTTP/1.1\r\nHost: loc",
    "half a body": HEAD + b"Content-Length: 100\r\n\r\nabc",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\nabc",
}


@pytest.fixture
def server(daphne: DaphneThread) -> Iterator[DaphneServer]:
    """A server that waits for a request for longer than any test takes."""
    _, server = daphne.start(max_message_bytes=1024)
    yield server
    daphne.call(server.stop)


@pytest.fixture
def hasty(daphne: DaphneThread) -> Iterator[DaphneServer]:
    """A server that waits only briefly for a request."""
    _, server = daphne.start(max_message_bytes=1024, request_timeout_s=TIMEOUT_S)
    yield server
    daphne.call(server.stop)


def connected(server: DaphneServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def answer(peer: socket.socket) -> tuple[int, str]:
    """Return the status and the reason of the only answer, after which the connection must end."""
    data = b""
    while piece := peer.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["reason"]


@pytest.mark.parametrize("what", UNFINISHED)
def test_a_request_that_does_not_arrive_is_refused_and_its_connection_closed(
    what: str, hasty: DaphneServer
) -> None:
    with connected(hasty) as peer:
        peer.sendall(UNFINISHED[what])
        status, reason = answer(peer)
    assert (status, "0.3 s" in reason) == (408, True)


def test_a_request_that_comes_byte_by_byte_is_still_refused(hasty: DaphneServer) -> None:
    with connected(hasty) as peer:
        peer.settimeout(0.05)
        data = b""
        peer.sendall(HEAD)
        for number in range(200):
            with suppress(TimeoutError):
                data += peer.recv(65536)
            if data:
                break
            peer.sendall(b"X-%d: drip\r\n" % number)
    assert data.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("field", [b"", b"Expect: 100-continue\r\n"])
def test_a_large_body_is_refused_before_it_is_sent(field: bytes, server: DaphneServer) -> None:
    with connected(server) as peer:
        peer.sendall(HEAD + field + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1))
        status, reason = answer(peer)
    assert (status, str(MAX_BODY_BYTES) in reason) == (413, True)


def test_a_large_body_in_chunks_is_refused(server: DaphneServer) -> None:
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    with connected(server) as peer:
        peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(MAX_BODY_BYTES // 0x10000 + 1):
            peer.sendall(chunk)
        assert answer(peer)[0] == 413


def test_a_large_body_in_many_small_chunks_is_refused_once(server: DaphneServer) -> None:
    with connected(server) as peer:
        peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        peer.sendall(b"%x\r\n%b\r\n" % (MAX_BODY_BYTES, bytes(MAX_BODY_BYTES)))
        peer.sendall(b"1\r\nx\r\n" * 100)
        assert answer(peer)[0] == 413


def test_a_body_of_the_largest_size_passes(server: DaphneServer) -> None:
    with connected(server) as peer:
        peer.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % MAX_BODY_BYTES)
        peer.sendall(bytes(MAX_BODY_BYTES))
        assert answer(peer)[0] == 405  # /metrics takes GET


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n",  # TLS on a port without TLS
        b"GET\r\n\r\n",
        b"GET /metrics of vela HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost localhost\r\n\r\n",
        HEAD + b"Content-Length: many\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"X: 1\r\n" * 600 + b"\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        HEAD + b"".join(b"X: %a\r\n" % ("x" * 1000) for _ in range(20)),
    ],
)
def test_bytes_that_are_no_request_are_refused_with_what_a_request_is(
    sent: bytes, server: DaphneServer
) -> None:
    with connected(server) as peer:
        peer.sendall(sent)
        status, reason = answer(peer)
    assert (status, "not an HTTP/1.1 request" in reason) == (400, True)


def test_a_header_with_control_characters_is_refused_with_a_reason(server: DaphneServer) -> None:
    with connected(server) as peer:
        peer.sendall(HEAD + b"X: 1\x0b2\r\nConnection: close\r\n\r\n")
        assert answer(peer) == (400, "Invalid header value")


def test_a_broken_form_is_left_to_the_page_that_it_is_sent_to(server: DaphneServer) -> None:
    form = b"Connection: close\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 4\r\n\r\n--y\n"
    with connected(server) as peer:
        peer.sendall(HEAD + form)
        assert answer(peer)[0] == 405  # /metrics takes GET


def test_too_many_unfinished_requests_close_the_oldest(
    server: DaphneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_UNFINISHED_REQUESTS", 1)
    with connected(server) as oldest, connected(server) as newest:
        oldest.sendall(HEAD)
        wait_until(lambda: server.http_factory.unfinished, "the first request")
        newest.sendall(HEAD)
        assert answer(oldest)[0] == 503
        newest.sendall(b"Connection: close\r\n\r\n")
        assert answer(newest)[0] == 405  # /metrics takes GET


async def test_a_complete_request_may_be_answered_later(daphne: DaphneThread) -> None:
    async def slow(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        await asyncio.sleep(3 * TIMEOUT_S)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        await asyncio.sleep(3 * TIMEOUT_S)
        await send({"type": "http.response.body", "body": b'"reason": "late"}'})

    _, server = daphne.start(max_message_bytes=1024, request_timeout_s=TIMEOUT_S, app=slow)
    with connected(server) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        peer.sendall(b"Connection: close\r\n\r\n")
        # The answer is chunked, so the peer reads until the connection ends.
        data = await asyncio.to_thread(lambda: b"".join(iter(lambda: peer.recv(65536), b"")))
    assert b"late" in data
    daphne.call(server.stop)


async def test_a_websocket_outlives_the_time_for_a_request(hasty: DaphneServer) -> None:
    address = f"ws://127.0.0.1:{hasty.port}/ws/v2/producer/persistent/public/default/orders"
    async with websockets.connect(address) as producer:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.recv(), 3 * TIMEOUT_S)
        await producer.send(json.dumps({"payload": "aGVsbG8="}))
        assert json.loads(await producer.recv())["result"] == "ok"


def test_a_pull_in_two_pieces_stops_the_clock(hasty: DaphneServer) -> None:
    pull = (
        b"GET /pull/v1/persistent/public/default/orders?queue=0&offset=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    with connected(hasty) as peer:
        for _ in range(2):
            peer.sendall(pull[:30])
            wait_until(lambda: hasty.http_factory.unfinished, "the first piece")
            peer.sendall(pull[30:])
            assert peer.recv(65536).startswith(b"HTTP/1.1 ")
            wait_until(lambda: not hasty.http_factory.unfinished, "the end of the request")
            peer.settimeout(3 * TIMEOUT_S)
            with pytest.raises(TimeoutError):
                peer.recv(1)
            peer.settimeout(10)


def test_requests_beyond_a_rate_are_refused_and_the_setting_is_named(daphne: DaphneThread) -> None:
    broker, server = daphne.start(max_message_bytes=1024, http_request_rate_per_address=3)
    try:
        for _ in range(2):
            with connected(server) as peer:
                peer.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert answer(peer)[0] == 404
        with connected(server) as peer:
            pull = b"GET /pull/v1/a/b HTTP/1.1\r\nHost: localhost\r\n\r\n"
            last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            peer.sendall(pull + pull + last + last)
            data = b""
            while piece := peer.recv(65536):
                data += piece
    finally:
        daphne.call(server.stop)
    statuses = [int(part.split()[0]) for part in data.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [400, 429, 429]  # nothing follows `Connection: close`
    assert b"VELA_HTTP_REQUEST_RATE_PER_ADDRESS" in data
    assert broker.connections.times_reached == {"VELA_HTTP_REQUEST_RATE_PER_ADDRESS": 2}


def test_a_pull_whose_client_a_thread_must_check_counts_as_one_request(
    server: DaphneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def must_wait(*_: object, **__: object) -> None:
        raise MustWait

    counted: list[str] = []
    monkeypatch.setattr(server.pulls, "begin_for", must_wait)
    monkeypatch.setattr(server.limits.rates, "check_request", counted.append)
    with connected(server) as peer:
        for number in (1, 2):
            peer.sendall(b"GET /pull/v1/a/b HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert peer.recv(65536).startswith(b"HTTP/1.1 400 ")
            assert len(counted) == number
        peer.sendall(HEAD + b"\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 405 ")
        assert len(counted) == 3


def test_many_pulls_in_one_piece_are_answered_in_order_and_in_turns(daphne: DaphneThread) -> None:
    broker, server = daphne.start(max_message_bytes=1024, http_request_rate=0)
    pulls = b"".join(
        b"GET /pull/v1/topic-%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number for number in range(500)
    )
    try:
        with connected(server) as peer:
            peer.sendall(pulls + b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := peer.recv(65536):
                data += piece
    finally:
        daphne.call(server.stop)
    statuses = [int(part.split()[0]) for part in data.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [400] * 500 + [404]
    assert broker.connections.loop_time.waits > 0
