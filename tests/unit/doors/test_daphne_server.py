"""Daphne with flow control, with a plain WebSocket library at the other end."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
import websockets
from websockets.frames import Frame, Opcode

from broker.doors.http.daphne_protocol import FlowControlledProtocol
from broker.doors.http.daphne_server import DaphneServer
from broker.http_server import MAX_BODY_BYTES
from tests.support.waiting import wait_until
from tests.unit.doors.daphne_thread import DaphneThread
from tests.unit.doors.fake_broker import FakeBroker
from vela.wire.binary import commands

MAX_MESSAGE_BYTES = 256 * 1024
PRODUCER = "/ws/v2/producer/persistent/public/default/orders"
CONSUMER = "/ws/v2/consumer/persistent/public/default/orders/s?subscriptionInitialPosition=Earliest"
READER = "/ws/v2/reader/persistent/public/default/orders"

Running = tuple[FakeBroker, DaphneServer]


@pytest.fixture
def running(daphne: DaphneThread) -> Iterator[Running]:
    broker, server = daphne.start(max_message_bytes=MAX_MESSAGE_BYTES)
    yield broker, server
    daphne.call(server.stop)


def url(running: Running, path: str) -> str:
    return f"ws://127.0.0.1:{running[1].port}{path}"


async def get(
    running: Running, path: str, method: str = "GET", data: bytes | None = None
) -> tuple[int, bytes]:
    def fetch() -> tuple[int, bytes]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{running[1].port}{path}", method=method, data=data
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    return await asyncio.to_thread(fetch)


def message(payload: bytes) -> str:
    return json.dumps({"payload": base64.b64encode(payload).decode()})


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


async def test_health_and_metrics_pages_answer_and_others_are_refused(running: Running) -> None:
    assert await get(running, "/healthz") == (200, b'{"status":"ok"}')
    assert (await get(running, "/readyz"))[0] == 200
    running[0].ready = (False, "no lock")
    assert await get(running, "/readyz") == (503, b'{"reason": "no lock"}')
    assert await get(running, "/metrics") == (200, b"vela_up 1\nvela_down 0\n")
    status, body = await get(running, "/nothing")
    assert (status, "nothing is served at /nothing" in json.loads(body)["reason"]) == (404, True)
    status, body = await get(running, PRODUCER)
    assert (status, "is a WebSocket address" in json.loads(body)["reason"]) == (404, True)
    assert (await get(running, "/metrics", "DELETE"))[0] == 405
    assert (await get(running, "/metrics", "HEAD")) == (200, b"")


async def test_a_body_that_is_too_large_is_refused(running: Running) -> None:
    try:
        status, _ = await get(running, "/metrics", "POST", bytes(MAX_BODY_BYTES + 100_000))
    except (urllib.error.URLError, ConnectionError):
        status = 413  # the server closed before the whole body was sent
    assert status == 413


async def test_a_published_message_reaches_a_consumer(running: Running) -> None:
    async with websockets.connect(url(running, PRODUCER)) as producer:
        await producer.send(message(b"hello"))
        assert json.loads(await producer.recv())["result"] == "ok"
        async with websockets.connect(url(running, CONSUMER)) as consumer:
            push = json.loads(await consumer.recv())
            assert base64.b64decode(push["payload"]) == b"hello"


async def test_the_largest_message_passes_and_a_frame_above_the_limit_is_closed_with_1009(
    running: Running,
) -> None:
    async with websockets.connect(url(running, PRODUCER), max_size=None) as producer:
        await producer.send(message(os.urandom(MAX_MESSAGE_BYTES)))
        assert json.loads(await producer.recv())["result"] == "ok"
        await producer.send(message(bytes(MAX_MESSAGE_BYTES * 2)))
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await producer.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_text_that_is_not_utf8_is_closed_with_1007(running: Running) -> None:
    async with websockets.connect(url(running, PRODUCER)) as producer:
        await producer.send(b"\xff\xfe", text=True)
        with pytest.raises(websockets.ConnectionClosedError) as closed:
            await producer.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1007


async def test_a_refused_handshake_has_a_status_and_a_reason(running: Running) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(url(running, PRODUCER.replace("orders", "absent")))
    assert refused.value.response.status_code == 404
    assert "absent" in json.loads(refused.value.response.body)["reason"]


async def handshake(running: Running, *fields: str) -> tuple[int, dict[str, str], bytes]:
    """Send a handshake with these header fields, and return the status, the fields and the body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running[1].port)
    lines = [f"GET {PRODUCER} HTTP/1.1", "Host: localhost", "Upgrade: websocket", *fields, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
    writer.close()
    status, *answered = head.decode().split("\r\n")
    return int(status.split()[1]), dict(each.split(": ") for each in answered), body


@pytest.mark.parametrize(
    ("version", "status", "reason"),
    [
        ("8", 426, "version 8 not supported"),
        ("14", 426, "version 14 not supported"),
        ("x", 400, "could not parse"),
    ],
)
async def test_only_version_13_is_spoken(running: Running, version: str, status: int, reason: str) -> None:
    given = f"Sec-WebSocket-Version: {version}"
    answer, headers, body = await handshake(
        running, "Connection: Upgrade", given, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    )
    assert (answer, headers.get("Sec-WebSocket-Version")) == (status, "13" if status == 426 else None)
    assert reason in json.loads(body)["reason"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (("Connection: close", "Sec-WebSocket-Version: 13"), "upgrade"),
        (("Connection: Upgrade", "Sec-WebSocket-Version: 13"), "Sec-WebSocket-Key header missing"),
        (
            ("Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: short"),
            "length must be 24",
        ),
    ],
)
async def test_a_malformed_handshake_has_a_status_and_a_reason(
    running: Running, fields: tuple[str, ...], reason: str
) -> None:
    status, headers, body = await handshake(running, *fields)
    assert (status, headers["Content-Type"]) == (400, "application/json")
    assert reason in json.loads(body)["reason"]


@pytest.mark.row("S0.2")
async def test_the_binary_protocol_is_read_inside_websocket_messages_however_cut(running: Running) -> None:
    async with websockets.connect(url(running, "/ws/binary")) as client:
        data = commands.connect(client_version="x", protocol_version=21)
        for at in range(len(data)):
            await client.send(data[at : at + 1])
        answer = await client.recv()
        assert isinstance(answer, bytes)
        await client.send(commands.ping())
        assert await client.recv() == commands.pong()
        await client.send(b"\x7f\xff\xff\xff\x00\x00\x00\x00")
        assert isinstance(await client.recv(), bytes)
        with pytest.raises(websockets.ConnectionClosedError):
            await client.recv()


async def test_a_silent_peer_is_probed_with_a_ping(running: Running) -> None:
    async with websockets.connect(url(running, CONSUMER)):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(url(running, CONSUMER))
        assert refused.value.response.status_code == 409


async def test_a_producer_that_leaves_is_detached_and_its_earlier_sends_are_stored(
    running: Running, daphne: DaphneThread
) -> None:
    broker, _ = running
    # Receipts that nobody reads would fill a limited queue, and the client would not see the answer to its close.
    async with websockets.connect(url(running, PRODUCER), max_queue=None) as producer:
        for number in range(50):
            await producer.send(message(b"%d" % number))
    for _ in range(1000):
        topic = broker.topics["persistent://public/default/orders"]
        if len(topic.entries) == 50 and not topic.producers:
            break
        await asyncio.to_thread(daphne.call, _turn)
    assert len(topic.entries) == 50
    assert topic.producers == {}


async def test_messages_that_came_before_the_end_of_a_connection_are_stored(
    running: Running, daphne: DaphneThread
) -> None:
    broker, _ = running
    frames = [Frame(Opcode.TEXT, message(b"%d" % number).encode()) for number in range(400)]
    async with websockets.connect(url(running, PRODUCER), max_queue=None) as producer:
        producer.transport.write(b"".join(each.serialize(mask=True) for each in frames))
        producer.transport.write_eof()
        await producer.wait_closed()
    await asyncio.to_thread(daphne.call, _turn)
    (topic,) = broker.topics.values()
    await asyncio.to_thread(wait_until, lambda: not topic.producers, "the producer's release", timeout_s=5)
    assert len(topic.entries) == 400


async def test_a_consumer_that_does_not_read_costs_little_and_does_not_disturb_others(
    running: Running,
) -> None:
    running[0].deliveries_per_write = 8
    payload = os.urandom(64 * 1024)
    async with websockets.connect(url(running, PRODUCER), max_size=None) as producer:
        for _ in range(1000):
            await producer.send(message(payload))
            await producer.recv()
        before = resident_bytes()
        slow = await websockets.connect(url(running, CONSUMER), max_size=None, max_queue=1)
        other = CONSUMER.replace("/s?", "/other?")
        async with websockets.connect(url(running, other), max_size=None) as consumer:
            for _ in range(1000):
                push = await asyncio.wait_for(consumer.recv(), 20)
                await consumer.send(json.dumps({"messageId": json.loads(push)["messageId"]}))
        # The messages have 87 MB in all. Both ends of the connection are in this process.
        assert resident_bytes() - before < 24 * 1024 * 1024
        slow.transport.abort()


async def test_an_application_that_does_not_take_frames_stops_the_socket(daphne: DaphneThread) -> None:
    release = asyncio.Event()
    taken = 0

    async def application(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        nonlocal taken
        await receive()
        await send({"type": "websocket.accept"})
        await release.wait()
        while (await receive())["type"] == "websocket.receive":
            taken += 1

    _, server = daphne.start(max_message_bytes=MAX_MESSAGE_BYTES, app=application)
    sent = 0
    client = await websockets.connect(f"ws://127.0.0.1:{server.port}{PRODUCER}", ping_interval=None)
    try:
        while sent < 2000:
            async with asyncio.timeout(1):
                await client.send(bytes(32 * 1024), text=True)
            sent += 1
    except TimeoutError:
        pass
    assert sent < 1000  # only as much as the kernel's buffers and the queue hold
    from daphne.server import twisted_loop

    twisted_loop.call_soon_threadsafe(release.set)
    await client.close()
    for _ in range(1000):
        if taken >= sent:
            break
        await asyncio.to_thread(daphne.call, _turn)
    assert taken - sent in (0, 1)  # the send that exceeded the time limit may have been sent
    daphne.call(server.stop)


async def test_stopping_tells_every_socket(daphne: DaphneThread) -> None:
    _, server = daphne.start(max_message_bytes=MAX_MESSAGE_BYTES)
    async with websockets.connect(f"ws://127.0.0.1:{server.port}{PRODUCER}") as producer:
        await asyncio.to_thread(daphne.call, server.stop)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await producer.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001


async def _turn() -> None:
    await asyncio.sleep(0)


async def test_a_producer_that_sends_too_many_messages_is_read_later(daphne: DaphneThread) -> None:
    broker, server = daphne.start(max_message_bytes=MAX_MESSAGE_BYTES, websocket_message_rate=100)
    began_s = time.monotonic()
    try:
        async with websockets.connect(url((broker, server), PRODUCER)) as producer:
            for number in range(120):
                await producer.send(message(b"%d" % number))
            for _ in range(120):
                assert json.loads(await producer.recv())["result"] == "ok"
    finally:
        await asyncio.to_thread(daphne.call, server.stop)
    assert time.monotonic() - began_s > 0.1  # 100 messages a second are allowed, so 20 must wait
    assert broker.connections.times_reached["VELA_WEBSOCKET_MESSAGE_RATE"] > 0


async def test_a_client_that_leaves_while_it_sent_too_much_is_released_soon(daphne: DaphneThread) -> None:
    broker, server = daphne.start(max_message_bytes=MAX_MESSAGE_BYTES, websocket_byte_rate=100)
    try:
        async with websockets.connect(url((broker, server), PRODUCER)) as producer:
            await producer.send(message(bytes(10_000)))
            await producer.recv()
            (topic,) = broker.topics.values()
            assert topic.producers
        await asyncio.to_thread(
            wait_until, lambda: not topic.producers, "the producer's release", timeout_s=5
        )
    finally:
        await asyncio.to_thread(daphne.call, server.stop)


async def test_each_report_of_a_reader_counts_towards_its_rate(daphne: DaphneThread) -> None:
    broker, server = daphne.start(max_message_bytes=MAX_MESSAGE_BYTES, websocket_message_rate=100)
    try:
        async with websockets.connect(url((broker, server), READER)) as reader:
            await reader.send(json.dumps([{}] * 120))
            await reader.send(json.dumps({"type": "isEndOfTopic"}))
            await reader.recv()
    finally:
        await asyncio.to_thread(daphne.call, server.stop)
    assert broker.connections.times_reached["VELA_WEBSOCKET_MESSAGE_RATE"] > 0


async def test_many_messages_in_one_piece_are_taken_in_turns_and_acked_in_order(running: Running) -> None:
    broker, _ = running
    async with websockets.connect(url(running, PRODUCER), max_queue=None) as producer:
        for number in range(1000):
            await producer.send(json.dumps({"payload": "not base64!", "context": str(number)}))
        answers = [json.loads(await producer.recv()) for _ in range(1000)]
    assert [answer["context"] for answer in answers] == [str(number) for number in range(1000)]
    assert broker.connections.loop_time.waits > 0


async def test_fragments_and_pings_between_whole_messages_change_no_order(running: Running) -> None:
    async with websockets.connect(url(running, PRODUCER), max_queue=None) as producer:
        for number in range(0, 60, 3):
            whole = json.dumps({"payload": "YQ==", "context": f"{number}"})
            cut = json.dumps({"payload": "YWJj" * number * 40, "context": f"{number + 1}"})
            await producer.send(whole)
            await producer.send([cut[:7], cut[7:50], cut[50:]])
            await producer.ping()
            await producer.send(whole.replace(f'"{number}"', f'"{number + 2}"'))
        answers = [json.loads(await producer.recv()) for _ in range(60)]
    assert [answer["context"] for answer in answers] == [str(number) for number in range(60)]
    assert {answer["result"] for answer in answers} == {"ok"}


def only_socket(running: Running) -> FlowControlledProtocol:
    (socket,) = (each for each in running[1].connections if isinstance(each, FlowControlledProtocol))
    return socket


async def test_pings_of_a_peer_that_does_not_read_get_one_pong_when_it_reads(
    running: Running, daphne: DaphneThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with websockets.connect(url(running, PRODUCER), ping_interval=None) as producer:
        socket = only_socket(running)
        pongs: list[bytes] = []

        async def paused() -> None:
            monkeypatch.setattr(socket, "sendPong", pongs.append)
            socket.output_paused()

        async def drained() -> None:
            socket.output_drained()

        await asyncio.to_thread(daphne.call, paused)
        for number in range(3):
            await producer.ping(b"%d" % number)
        await producer.send(message(b"after the pings"))
        await producer.recv()
        assert pongs == []
        await asyncio.to_thread(daphne.call, drained)
        assert pongs == [b"2"]


async def test_a_peer_is_pinged_again_only_after_its_pong_and_dropped_only_if_the_broker_reads(
    running: Running, daphne: DaphneThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with websockets.connect(url(running, PRODUCER), ping_interval=None) as producer:
        socket = only_socket(running)
        pings: list[bytes] = []
        monkeypatch.setattr(socket, "sendPing", pings.append)

        def pass_time() -> None:
            socket.last_ping = 0
            socket.check_timeouts()

        def time_out() -> None:
            socket.autoPingTimeoutCall.cancel()
            socket.onAutoPingTimeout()

        async def slow() -> None:
            pass_time()
            pass_time()
            assert len(pings) == 1
            socket.pause_reading()
            time_out()
            pass_time()
            assert len(pings) == 1
            socket.resume_reading()
            pass_time()
            assert len(pings) == 2

        async def resumed() -> None:
            pass_time()
            assert len(pings) == 2
            socket.pause_reading()
            socket.resume_reading()
            assert socket.autoPingTimeoutCall is None  # the pong may be in the socket
            pass_time()
            assert len(pings) == 3

        async def silent() -> None:
            time_out()

        await asyncio.to_thread(daphne.call, slow)
        await producer.send(message(b"still here"))
        assert json.loads(await producer.recv())["result"] == "ok"
        await asyncio.to_thread(daphne.call, resumed)
        await asyncio.to_thread(daphne.call, silent)
        with pytest.raises(websockets.ConnectionClosedError):
            await producer.recv()


async def test_empty_fragments_take_no_memory(running: Running, daphne: DaphneThread) -> None:
    text = message(b"hello")

    async def held_bytes() -> int:
        return sys.getsizeof(only_socket(running).message_data)

    async with websockets.connect(url(running, PRODUCER), ping_interval=None) as producer:

        async def fragments() -> AsyncIterator[str]:
            yield text[:5]
            for _ in range(1000):
                yield ""
            await (await producer.ping())
            assert await asyncio.to_thread(daphne.call, held_bytes) < 200
            yield text[5:]

        await producer.send(fragments())
        assert json.loads(await producer.recv())["result"] == "ok"
