"""Bad input over each protocol of a real broker gets that protocol's error, and disturbs nobody else.

Over 400 lines: one Vela serves all protocols here, and each test checks that nobody else was disturbed.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
import websockets
from websockets.sync.client import connect

from tests.support.raw_pulsar import RawPulsar, frame
from tests.support.vela import VelaProcess, started_vela
from tests.support.waiting import wait_until
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.entry import encode_single
from vela.wire.message_id import MessageId
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

MIB = 1024 * 1024
LARGEST_MESSAGE = 5 * MIB
# The memory that one bad client may cost when messages of this size are allowed.
COST_BYTES = 4 * LARGEST_MESSAGE
TAIL_CACHE_BYTES = 16 * MIB


@pytest.fixture(scope="module")
def vela(vela_data: Path) -> Iterator[VelaProcess]:
    """A Vela that caches little, so that the broker's memory shows what clients cost."""
    with started_vela({"VELA_TAIL_CACHE_BYTES": str(TAIL_CACHE_BYTES)}, data=vela_data) as process:
        yield process


@pytest.fixture(autouse=True)
def nothing_else_happened(vela: VelaProcess) -> Iterator[None]:
    """Check after each test that the broker is the same process and has logged no traceback."""
    before = vela.pids()["broker"]
    log = vela.data_dir / "log" / "broker.log"
    seen = log.stat().st_size
    yield
    assert vela.pids()["broker"] == before
    assert "Traceback" not in log.read_bytes()[seen:].decode()


def entry(payload: bytes = b"x", sequence_id: int = 0) -> bytes:
    return encode_single(producer_name="raw", sequence_id=sequence_id, publish_time_ms=1, payload=payload)


def resident_bytes(vela: VelaProcess) -> int:
    status = Path(f"/proc/{vela.pids()['broker']}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def round_trip(client: pulsar.Client, topic: str) -> None:
    """Check that another client's message is delivered."""
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"still here")
    assert consumer.receive(20_000).data() == b"still here"
    consumer.close()
    producer.close()


@pytest.fixture
def bystander(vela: VelaProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


# -- the binary protocol -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"\x7f\xff\xff\xff\x00\x00\x00\x02", id="oversized"),
        pytest.param(b"\x00\x00\x00\x08\x00\x00\x00\x40", id="sizes-contradict"),
        pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff", id="not-protobuf"),
        pytest.param(b"\x00\x00\x00\x07\x00\x00\x00\x03\x08\xe7\x07", id="unknown-command"),
        pytest.param(frame(BaseCommand(type=BaseCommand.SEND)), id="required-field-missing"),
        pytest.param(commands.connect(client_version="again", protocol_version=21), id="second-connect"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: vela\r\n\r\n", id="http"),
        pytest.param(bytes(64), id="zeros"),
    ],
)
def test_garbage_after_connect_is_an_error_and_a_close(
    vela: VelaProcess, bystander: pulsar.Client, garbage: bytes
) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        peer.tell(commands.ping(), garbage)
        said = peer.until_closed()
        assert [BaseCommand.Type.Name(command.type) for command in said] == ["PONG", "ERROR"]
        assert said[1].error.message
    round_trip(bystander, "bystander")


@pytest.mark.parametrize(
    "garbage", [b"\x00", commands.ping(), random.Random(1).randbytes(1000)], ids=["cut", "early", "random"]
)
def test_garbage_before_connect_closes(vela: VelaProcess, garbage: bytes) -> None:
    with RawPulsar(vela.pulsar_url, connect=False) as peer:
        peer.tell(garbage)
        peer.socket.shutdown(socket.SHUT_WR)
        assert all(command.type == BaseCommand.ERROR for command in peer.until_closed())


def test_a_frame_cut_off_by_a_lost_connection_stores_nothing(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer("cut-off")
        head, data = commands.send(1, 0, entry(b"x" * 1000))
        peer.tell(head, data[:500])
    with RawPulsar(vela.pulsar_url) as peer:
        peer.subscribe("cut-off")
        answer = peer.ask("GET_LAST_MESSAGE_ID_RESPONSE", commands.get_last_message_id(1, request_id=3))
        assert answer.getLastMessageIdResponse.last_message_id.ledgerId == 2**64 - 1


def test_a_damaged_entry_is_refused_and_the_next_one_stored(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer("damaged")
        damaged = entry(b"damaged")[:-1] + b"?"
        refused = peer.ask("SEND_ERROR", *commands.send(1, 0, damaged)).send_error
        assert (ServerError(refused.error), refused.sequence_id) == (ServerError.CHECKSUM_ERROR, 0)
        receipt = peer.ask("SEND_RECEIPT", *commands.send(1, 1, entry(sequence_id=1))).send_receipt
        assert receipt.sequence_id == 1


def test_a_message_above_the_limit_is_refused(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer("large")
        refused = peer.ask("SEND_ERROR", *commands.send(1, 0, entry(bytes(LARGEST_MESSAGE + 1)))).send_error
        assert ServerError(refused.error) == ServerError.NOT_ALLOWED_ERROR
        peer.ask("SEND_RECEIPT", *commands.send(1, 1, entry(bytes(LARGEST_MESSAGE), 1)))


def test_names_that_cannot_be_are_refused(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        answer = peer.ask("ERROR", commands.producer("a/b", producer_id=1, request_id=1))
        assert ServerError(answer.error.error) == ServerError.INVALID_TOPIC_NAME
        answer = peer.ask("PARTITIONED_METADATA_RESPONSE", commands.partition_metadata("x y", request_id=2))
        assert ServerError(answer.partitionMetadataResponse.error) == ServerError.INVALID_TOPIC_NAME
        absent = commands.partition_metadata("never-made", request_id=3, create=False)
        answer = peer.ask("PARTITIONED_METADATA_RESPONSE", absent)
        assert ServerError(answer.partitionMetadataResponse.error) == ServerError.TOPIC_NOT_FOUND
        bad = commands.subscribe("a/b", "s", type=SubType.SHARED, consumer_id=1, request_id=4)
        said = peer.ask("ERROR", bad)
        assert ServerError(said.error.error) == ServerError.INVALID_TOPIC_NAME
        assert said.error.request_id == 4
        peer.ask("PONG", commands.ping())


def test_permits_of_zero_close_and_pending_messages_are_redelivered(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer("permits")
        peer.ask("SEND_RECEIPT", *commands.send(1, 0, entry()))
    with RawPulsar(vela.pulsar_url) as peer:
        peer.subscribe("permits")
        peer.ask("MESSAGE", commands.flow(1, 10))
        peer.tell(commands.flow(1, 0))
        assert [BaseCommand.Type.Name(command.type) for command in peer.until_closed()] == ["ERROR"]
    with RawPulsar(vela.pulsar_url) as peer:
        peer.subscribe("permits")
        peer.ask("MESSAGE", commands.flow(1, 10))


def test_an_ack_of_an_undelivered_message_is_answered_and_changes_nothing(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer("never")
        peer.ask("SEND_RECEIPT", *commands.send(1, 0, entry()))
        peer.subscribe("never")
        for request_id, position in enumerate(((7, 7), (2**62, 0), (1, 2**62))):
            answer = peer.ask("ACK_RESPONSE", commands.ack(1, [(*position, None)], request_id=request_id))
            assert answer.ackResponse.request_id == request_id
        peer.ask("MESSAGE", commands.flow(1, 10))


def test_commands_that_are_not_available_are_refused_by_name(vela: VelaProcess) -> None:
    with RawPulsar(vela.pulsar_url) as peer:
        command = BaseCommand(type=BaseCommand.TC_CLIENT_CONNECT_REQUEST)
        command.tcClientConnectRequest.request_id = 4
        answer = peer.ask("ERROR", frame(command))
        assert ServerError(answer.error.error) == ServerError.NOT_ALLOWED_ERROR
        assert "TC_CLIENT_CONNECT_REQUEST" in answer.error.message


# -- WebSocket ---------------------------------------------------------------------------------------------------------


def producer_url(vela: VelaProcess, topic: str) -> str:
    return f"{vela.websocket_url}/ws/v2/producer/persistent/public/default/{topic}"


def consumer_url(vela: VelaProcess, topic: str, query: str = "") -> str:
    path = f"/ws/v2/consumer/persistent/public/default/{topic}/s"
    return f"{vela.websocket_url}{path}?subscriptionInitialPosition=Earliest{query}"


@pytest.mark.parametrize(
    ("frame_", "result"),
    [
        ("{", "send-error:3"),
        ("[" * 5000, "send-error:3"),
        ('{"payload": 1}', "send-error:3"),
        ('{"payload": "not base64"}', "send-error:7"),
        ("{}", "send-error:7"),
    ],
    ids=["json", "nested", "type", "base64", "missing"],
)
def test_a_bad_message_is_answered_and_the_socket_stays(vela: VelaProcess, frame_: str, result: str) -> None:
    with connect(producer_url(vela, "ws-bad")) as socket_:
        socket_.send(frame_)
        assert json.loads(socket_.recv(20))["result"] == result
        socket_.send('{"payload": "aGk="}')
        assert json.loads(socket_.recv(20))["result"] == "ok"


@pytest.mark.parametrize(
    ("frame_", "code"),
    [
        ("{", 1007),
        ('{"messageId": "not base64"}', 1008),
        ('{"messageId": "AAAA"}', 1008),
        ('{"type": "permit", "permitMessages": 0}', 1008),
        ('{"type": "permit"}', 1008),
        (b"\x00", 1003),
        ("x" * (2 * MIB), 1009),
    ],
    ids=["json", "base64", "id", "permits", "no-number", "binary", "large"],
)
def test_a_bad_command_closes_with_a_code_and_pending_messages_are_redelivered(
    vela: VelaProcess, frame_: str | bytes, code: int
) -> None:
    topic = f"ws-command-{code}-{len(frame_)}"
    with connect(producer_url(vela, topic)) as producer:
        producer.send('{"payload": "aGk="}')
        producer.recv(20)
    with connect(consumer_url(vela, topic, "&pullMode=true")) as consumer:
        consumer.send('{"type": "permit", "permitMessages": 1}')
        consumer.recv(20)
        consumer.send(frame_)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            consumer.recv(20)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
    with connect(consumer_url(vela, topic)) as consumer:
        assert json.loads(consumer.recv(20))["payload"] == "aGk="


def test_acks_of_undelivered_messages_change_nothing(vela: VelaProcess) -> None:
    with connect(producer_url(vela, "ws-never")) as producer:
        producer.send('{"payload": "aGk="}')
        producer.recv(20)
    with connect(consumer_url(vela, "ws-never")) as consumer:
        push = json.loads(consumer.recv(20))
        for position in ((1, 2**40), (2**40, 0)):
            consumer.send(json.dumps({"messageId": MessageId(*position).to_base64()}))
        consumer.send(json.dumps({"messageId": push["messageId"]}))
        with pytest.raises(TimeoutError):
            consumer.recv(0.2)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ws/v2/consumer/persistent/public/default/orders", 400),
        ("/ws/v2/consumer/persistent/public/default/orders/s?subscriptionType=All", 400),
        ("/ws/v2/consumer/persistent/public/default/orders/s?receiverQueueSize=-1", 400),
        ("/ws/v2/producer/persistent/public/default/bad%20name", 400),
        ("/ws/v2/reader/persistent/public/default/orders?messageId=nonsense", 500),
        ("/ws/v9/producer/persistent/public/default/orders", 404),
    ],
)
def test_refused_handshakes_have_a_status_and_a_reason(vela: VelaProcess, path: str, status: int) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        connect(vela.websocket_url + path).close()
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body)["reason"]


# -- peers that do not read, and peers that flood


def publish(vela: VelaProcess, topic: str, *, messages: int, size_bytes: int) -> None:
    client = pulsar.Client(vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=50)
    payload = os.urandom(size_bytes)
    for _ in range(messages):
        producer.send_async(payload, lambda _result, _id: None)
    producer.flush()
    client.close()


@pytest.fixture(scope="module")
def stored(vela: VelaProcess) -> str:
    """A topic with 60 MB that was read once, so that the broker has allocated the memory for serving it."""
    publish(vela, "much", messages=960, size_bytes=64 * 1024)
    client = pulsar.Client(vela.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    reader = client.create_reader("much", pulsar.MessageId.earliest)
    for _ in range(960):
        reader.read_next(30_000)
    client.close()
    return "much"


def highest_growth(vela: VelaProcess, before: int, bystander: pulsar.Client) -> int:
    """Return how much the broker grows while another client sends and receives messages, which must succeed."""
    highest = 0
    deadline_s = time.monotonic() + 3
    while time.monotonic() < deadline_s:
        round_trip(bystander, "bystander")
        highest = max(highest, resident_bytes(vela) - before)
    return highest


def test_a_binary_consumer_that_does_not_read_costs_little(
    vela: VelaProcess, stored: str, bystander: pulsar.Client
) -> None:
    round_trip(bystander, "bystander")
    before = resident_bytes(vela)
    with RawPulsar(vela.pulsar_url) as peer:
        peer.subscribe(stored, "slow")
        peer.tell(commands.flow(1, 1_000_000))
        assert highest_growth(vela, before, bystander) < COST_BYTES


def test_a_websocket_consumer_that_does_not_read_costs_little(
    vela: VelaProcess, stored: str, bystander: pulsar.Client
) -> None:
    round_trip(bystander, "bystander")
    before = resident_bytes(vela)
    path = f"/ws/v2/consumer/persistent/public/default/{stored}/slow-ws?subscriptionInitialPosition=Earliest"
    with silent_websocket(vela, path) as peer:
        assert peer.fileno() > 0
        assert highest_growth(vela, before, bystander) < COST_BYTES


def test_a_binary_producer_that_floods_without_reading_costs_little(
    vela: VelaProcess, bystander: pulsar.Client
) -> None:
    round_trip(bystander, "bystander")
    before = resident_bytes(vela)
    with RawPulsar(vela.pulsar_url) as peer:
        peer.open_producer("flood")
        data = [b"".join(commands.send(1, number, entry(bytes(1024), number))) for number in range(2000)]
        flooding = flood(peer.socket, b"".join(data))
        assert highest_growth(vela, before, bystander) < COST_BYTES
        peer.socket.shutdown(socket.SHUT_RDWR)
        flooding.join(20)


def test_a_websocket_producer_that_floods_without_reading_costs_little(
    vela: VelaProcess, bystander: pulsar.Client
) -> None:
    round_trip(bystander, "bystander")
    before = resident_bytes(vela)
    text = json.dumps({"payload": base64.b64encode(bytes(1024)).decode()}).encode()
    head = b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4)  # masked with zeros
    with silent_websocket(vela, "/ws/v2/producer/persistent/public/default/flood-ws") as peer:
        flooding = flood(peer, (head + text) * 1000)
        assert highest_growth(vela, before, bystander) < COST_BYTES
        peer.shutdown(socket.SHUT_RDWR)
        flooding.join(20)


def flood(peer: socket.socket, data: bytes) -> threading.Thread:
    """Send endlessly, as fast as the broker reads, and read nothing."""

    def run() -> None:
        try:
            while True:
                peer.sendall(data)
        except OSError:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def silent_websocket(vela: VelaProcess, path: str) -> socket.socket:
    """A WebSocket whose peer does the handshake and never reads again."""
    host, _, port = vela.websocket_url.removeprefix("ws://").partition(":")
    peer = socket.create_connection((host, int(port)), 60)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    key = base64.b64encode(os.urandom(16)).decode()
    peer.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += peer.recv(1)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return peer


def test_a_connection_that_says_nothing_is_harmless(vela: VelaProcess, bystander: pulsar.Client) -> None:
    peers = [RawPulsar(vela.pulsar_url, connect=False) for _ in range(50)]
    round_trip(bystander, "bystander")
    for peer in peers:
        peer.socket.close()
    wait_until(lambda: vela.pids().get("broker"), "the broker")
