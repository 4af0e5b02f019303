"""The pull consumer against a whole Vela."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import connect

from tests.support.api import create_topic
from tests.support.byte_relay import relay
from tests.support.certificates import Authority
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from vela import errors
from vela.aio.pull import queue as pull_queue
from vela.aio.pull.consumer import PullConsumer
from vela.aio.pull.offsets import FileOffsets, MemoryOffsets
from vela.authentication import AuthenticationTLS
from vela.options import InitialPosition
from vela.pull_message import PulledMessage


def publish(vela: VelaProcess, topic: str, *payloads: bytes, tag: str | None = None) -> None:
    path = topic.replace("://", "/")
    with connect(f"{vela.websocket_url}/ws/v2/producer/{path}") as producer:
        for payload in payloads:
            message: dict[str, object] = {"payload": base64.b64encode(payload).decode(), "key": "k"}
            if tag is not None:
                message["properties"] = {"TAGS": tag}
            producer.send(json.dumps(message))
            assert json.loads(producer.recv(timeout=20))["result"] == "ok"


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(begin, begin + count)]


async def data(pulling: PullConsumer, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = await pulling.receive(timeout_millis=20_000)
        found.append(message.data())
        pulling.acknowledge(message)
    return found


def pulls_answered(vela: VelaProcess, outcome: str = "found") -> int:
    with urllib.request.urlopen(f"{vela.http_url}/metrics", timeout=20) as page:
        series = re.escape(f'vela_pull_answers_total{{outcome="{outcome}"}}')
        found = re.findall(rf"^{series} (\d+)", page.read().decode(), re.MULTILINE)
    return int(found[0]) if found else 0


@pytest.mark.row("S3.1")
async def test_a_hundred_messages_need_four_pulls(shared_vela: VelaProcess, topic: str) -> None:
    publish(shared_vela, topic, *numbers(100))
    before = pulls_answered(shared_vela)
    async with PullConsumer(
        shared_vela.http_url, topic, "g", initial_position=InitialPosition.Earliest
    ) as pulling:
        assert await data(pulling, 100) == numbers(100)
        # Four pulls for the messages, and before them one that found the beginning of the queue.
        assert pulls_answered(shared_vela) == before + 5
        publish(shared_vela, topic, b"woken")
        message = await pulling.receive(timeout_millis=20_000)
        assert (message.data(), message.offset(), message.partition_key()) == (b"woken", 100, "k")
        assert message.message_id().ledger_id() >= 0
    async with PullConsumer(shared_vela.http_url, topic, "g") as again:
        assert await data(again, 1) == [b"woken"]  # this message was not acknowledged


@pytest.mark.row("S3.18")
async def test_the_broker_keeps_the_offsets_of_a_group(shared_vela: VelaProcess, topic: str) -> None:
    publish(shared_vela, topic, *numbers(10))
    async with PullConsumer(
        shared_vela.websocket_url, topic, "g", initial_position=InitialPosition.Earliest
    ) as pulling:
        assert await data(pulling, 4) == numbers(4)
    async with PullConsumer(shared_vela.http_url, topic, "g") as pulling:
        assert await data(pulling, 6) == numbers(6, begin=4)
    async with PullConsumer(shared_vela.http_url, topic, "other") as pulling:
        publish(shared_vela, topic, b"new")
        assert await data(pulling, 1) == [b"new"]


async def test_a_file_keeps_the_offsets_of_all_queues(
    shared_vela: VelaProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(shared_vela, topic, partitions=3)
    store = FileOffsets(tmp_path / "offsets.json")
    listened: list[bytes] = []

    async def listen(pulling: PullConsumer, message: PulledMessage) -> None:
        listened.append(message.data())

    for round_ in range(2):
        async with PullConsumer(
            shared_vela.http_url,
            topic,
            offset_store=store,
            initial_position=InitialPosition.Earliest,
            message_listener=listen,
        ) as pulling:
            assert set(pulling.positions()) == {0, 1, 2}
            listened.clear()
            for queue in range(3):
                publish(shared_vela, f"{topic}-partition-{queue}", b"%d of %d" % (round_, queue))
            await until(lambda: len(listened) == 3, "a message of each queue", timeout_s=20)
            assert sorted(listened) == [b"%d of %d" % (round_, queue) for queue in range(3)]
    assert json.loads((tmp_path / "offsets.json").read_bytes()) == {topic: {"0": 2, "1": 2, "2": 2}}


@pytest.mark.row("S3.19")
async def test_the_end_of_a_parked_pull_is_not_a_failure(
    shared_vela: VelaProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker answers in time, and the consumer pulls again with the same offset."""
    publish(shared_vela, topic, b"before")
    before = pulls_answered(shared_vela, "not found")
    async with PullConsumer(
        shared_vela.http_url, topic, "g", hold_ms=200, request_timeout_ms=10_000
    ) as pulling:
        await until(
            lambda: pulls_answered(shared_vela, "not found") >= before + 3, "three holds", timeout_s=20
        )
        publish(shared_vela, topic, b"after")
        assert await data(pulling, 1) == [b"after"]
    assert not [each for each in caplog.records if each.name.startswith("vela.")]


@pytest.mark.row("S3.15")
async def test_after_silence_the_consumer_pulls_again(
    shared_vela: VelaProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay swallows everything, so that neither side learns that the pull is lost."""
    monkeypatch.setattr(pull_queue, "FAILED_MS", 50)
    publish(shared_vela, topic, b"before")
    inner = urlsplit(shared_vela.http_url)
    is_mute, connections, relays = False, 0, asyncio.Semaphore(0)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while received := await reader.read(1 << 16):
            if not is_mute:
                writer.write(received)
        writer.close()
        await writer.wait_closed()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        there = await asyncio.open_connection(inner.hostname, inner.port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
        relays.release()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with PullConsumer(url, topic, "g", hold_ms=400, request_timeout_ms=1000) as pulling:
        is_mute = True
        publish(shared_vela, topic, b"unheard")
        with pytest.raises(errors.Timeout):
            await pulling.receive(timeout_millis=1500)
        is_mute = False
        assert await data(pulling, 1) == [b"unheard"]
    server.close()
    for _ in range(connections):
        await asyncio.wait_for(relays.acquire(), 10)


async def test_a_pull_consumer_pulls_through_a_port_with_tls(
    shared_vela: VelaProcess, topic: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    publish(shared_vela, topic, b"a")
    context = authority.issue("vela", "localhost").server_context(clients_of=authority)
    own = authority.issue("client")
    port = urlsplit(shared_vela.http_url).port
    assert port is not None
    options: dict[str, Any] = {
        "authentication": AuthenticationTLS(own.certificate, own.private_key),
        "initial_position": InitialPosition.Earliest,
    }
    async with relay(port, context) as door:
        async with PullConsumer(
            f"https://localhost:{door}",
            topic,
            "g",
            tls_trust_certs_file_path=authority.file,
            tls_validate_hostname=True,
            **options,
        ) as pulling:
            assert await data(pulling, 1) == [b"a"]
        with pytest.raises(errors.ConnectError):
            async with PullConsumer(f"wss://localhost:{door}", topic, "g", **options):
                pass


async def test_tags_and_filters_choose_messages_and_a_wrong_filter_is_refused(
    shared_vela: VelaProcess, topic: str
) -> None:
    publish(shared_vela, topic, *numbers(40), tag="A")
    publish(shared_vela, topic, b"mine", tag="B")
    choices: list[dict[str, Any]] = [{"tags": "B || C"}, {"property_filter": "TAGS IN ('B')"}]
    for options in choices:
        async with PullConsumer(
            shared_vela.http_url,
            topic,
            offset_store=MemoryOffsets(),
            initial_position=InitialPosition.Earliest,
            **options,
        ) as pulling:
            message = await pulling.receive(timeout_millis=20_000)
            assert (message.data(), message.tag()) == (b"mine", "B")
    with pytest.raises(errors.TopicNotFound):
        async with PullConsumer(shared_vela.http_url, f"{topic}-absent", "g"):
            pass
    with pytest.raises(errors.InvalidConfiguration, match="there is no 1"):
        async with PullConsumer(shared_vela.http_url, topic, "g", queues=[1]):
            pass
