"""Connections, lookups, topics of a namespace and schemas, against the broker."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from tests.support.byte_relay import relay
from tests.support.vela import VelaProcess
from tests.support.waiting import until
from vela import errors
from vela.aio import Client
from vela.wire.binary import commands, replies
from vela.wire.binary.schema import Schema

SILENT_TIMES = 3


async def open_producer(client: Client, topic: str) -> None:
    connection = await client.connection_for(topic)
    answer = await connection.request(
        lambda request_id: commands.producer(topic, producer_id=1, request_id=request_id), timeout_s=10
    )
    assert isinstance(answer, replies.ProducerSuccess)


@pytest.mark.row("S0.2")
async def test_both_transports_shake_hands_and_answer_requests(service_url: str, topic: str) -> None:
    async with Client(service_url) as client:
        assert await client.get_topic_partitions(topic) == [topic]
        connection = await client.connection_for(topic)
        assert connection.server_version
        assert connection.max_message_bytes >= 5 * 1024 * 1024


async def test_one_connection_serves_lookups_and_topics(service_url: str, topic: str) -> None:
    async with Client(service_url) as client:
        first = await client.connection_for(topic)
        assert await client.connection_for(f"{topic}-other") is first
        assert client.pool.connections == [first]


async def test_an_unchanged_list_of_topics_is_not_sent_again(service_url: str, topic: str) -> None:
    async with Client(service_url) as client:
        await open_producer(client, topic)
        answer = await client.get_topics_of_namespace("public/default")
        assert topic in answer.topics
        again = await client.get_topics_of_namespace("public/default", known_hash=answer.topics_hash)
        assert (again.changed, list(again.topics)) == (False, [])


async def test_schemas_are_stored_and_found(service_url: str, topic: str) -> None:
    async with Client(service_url) as client:
        await open_producer(client, topic)
        with pytest.raises(errors.TopicNotFound):
            await client.get_schema(topic)
        schema = Schema(
            name="s", type=2, data=b'{"type":"record","name":"R","fields":[]}', properties={"a": "b"}
        )
        version = await client.get_or_create_schema(topic, schema)
        assert await client.get_or_create_schema(topic, schema) == version
        found = await client.get_schema(topic)
        assert (found.schema.type, found.schema.data, found.version) == (schema.type, schema.data, version)
        assert (await client.get_schema(topic, version)).schema.data == schema.data


async def test_the_brokers_refusal_is_raised(service_url: str, topic: str) -> None:
    async with Client(service_url) as client:
        with pytest.raises(errors.TopicNotFound, match="does not exist"):
            await client.get_or_create_schema(topic, Schema(name="s", type=1, data=b"", properties={}))
        with pytest.raises(errors.InvalidTopicName):
            await client.get_topic_partitions("persistent://a/b")


async def test_thousands_of_frames_in_one_write_are_all_read(service_url: str, topic: str) -> None:
    async with Client(service_url) as client:
        connection = await client.connection_for(topic)
        before = connection.next_request_id()
        for _ in range(2000):
            connection.write(commands.ping())
        assert await client.partitions(topic) == 0
        assert connection.next_request_id() > before


async def test_the_error_for_the_wrong_one_of_the_two_ports_points_to_the_url(
    shared_vela: VelaProcess, topic: str
) -> None:
    wrong = shared_vela.pulsar_url.replace("pulsar://", "ws://")
    async with Client(wrong) as client:
        with pytest.raises(errors.HandshakeError, match=r"does not speak WebSocket.*begins with pulsar://"):
            await client.subscribe(topic, "s")
    wrong = shared_vela.websocket_url.replace("ws://", "pulsar://")
    # The HTTP server stays silent, because it waits for the end of a line.
    async with Client(wrong, operation_timeout_seconds=0.5) as client:
        with pytest.raises(
            errors.Timeout, match="accepted the connection but did not answer; is the port right"
        ):
            await client.subscribe(topic, "s")


async def test_close_ends_all_connections(service_url: str, topic: str) -> None:
    client = Client(service_url)
    connection = await client.connection_for(topic)
    await client.close()
    assert connection.is_lost
    await client.close()
    with pytest.raises(errors.AlreadyClosed):
        await client.get_topic_partitions(topic)
    await until(lambda: not client.pool.connections, "all closed")


@pytest.mark.row("S0.3")
async def test_a_door_that_stays_silent_is_tried_again_with_growing_pauses(
    service_url: str, topic: str
) -> None:
    inner = urlsplit(service_url)
    assert inner.port is not None
    tried_at_s: list[float] = []

    def is_silent() -> bool:
        tried_at_s.append(asyncio.get_running_loop().time())
        return len(tried_at_s) <= SILENT_TIMES

    async with relay(inner.port, is_silent=is_silent) as port:
        client = Client(
            f"{inner.scheme}://127.0.0.1:{port}", connection_timeout_ms=100, initial_backoff_ms=100
        )
        async with client, await client.create_producer(topic) as producer:
            await producer.send(b"arrived")
    pauses_s = [after - before for before, after in pairwise(tried_at_s[: SILENT_TIMES + 1])]
    assert sorted(pauses_s) == pauses_s
    assert len(pauses_s) == SILENT_TIMES
