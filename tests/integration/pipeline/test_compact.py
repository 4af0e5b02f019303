"""The job compact, over a started Vela: readers get what the broker's own compaction would give them."""

from __future__ import annotations

import asyncio
import base64
import zlib
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import vela
from pipeline.errors import PipelineError, TopicNotFound
from pipeline.jobs import compact
from tests.integration.pipeline.running import Broker
from tests.support.offloading import Silent, job_request
from tests.support.waiting import wait_until
from vela.aio import Client as AsyncClient
from vela.message import MessageId

READ_MS = 10_000


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    return broker.topic(f"compact-{zlib.crc32(request.node.name.encode())}")


def run(broker: Broker, topic: str, *, executors_url: str = "") -> dict[str, Any]:
    request = replace(
        job_request(broker.process.database_url, "", topic),
        job="compact",
        options={},
        executors_url=executors_url,
    )
    return compact.run(request, Silent(), lambda: broker.spark)


def send(broker: Broker, topic: str, *pairs: str, batching: bool = False) -> None:
    producer = broker.client.create_producer(topic, batching_enabled=batching, batching_max_messages=3)
    for pair in pairs:
        key, _, value = pair.partition("=")
        producer.send_async(value.encode(), None, partition_key=key or None)
    producer.flush()
    producer.close()


def send_with_binary_key(broker: Broker, topic: str, key: bytes, value: bytes) -> None:
    """Publish a message with a binary key, as some clients do. Vela's producer has no argument for such a key."""

    async def send() -> None:
        async with AsyncClient(broker.process.pulsar_url) as client:
            producer = await client.create_producer(topic)
            message = producer.prepare(value, None, base64.b64encode(key).decode())
            answer: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
            producer.send_outgoing(message._replace(key_b64=True), answer)
            await answer
            await producer.close()

    asyncio.run(send())


def read(broker: Broker, topic: str) -> list[str]:
    reader = broker.client.create_reader(topic, vela.MessageId.earliest, is_read_compacted=True)
    found = []
    while reader.has_message_available():
        message = reader.read_next(READ_MS)
        found.append(f"{message.partition_key() or ''}={message.data().decode()}")
    reader.close()
    return found


@pytest.mark.parametrize("batching", [False, True])
def test_readers_get_the_latest_message_of_each_key(broker: Broker, topic: str, batching: bool) -> None:
    send(broker, topic, "a=1", "b=1", "=x", "a=2", "c=1", "b=", "c=2", "a=3", batching=batching)
    first = run(broker, topic)
    assert (first["kept_messages"], first["removed_messages"]) == (2, 6)
    assert read(broker, topic) == ["c=2", "a=3"]
    send(broker, topic, "d=1", "c=", "e=1", "d=2", batching=batching)
    assert read(broker, topic) == ["c=2", "a=3", "d=1", "c=", "e=1", "d=2"]
    second = run(broker, topic)  # continues from the first run
    assert (second["kept_messages"], second["removed_messages"]) == (3, 3)
    assert read(broker, topic) == ["a=3", "e=1", "d=2"]
    assert "nothing was published" in run(broker, topic)["words"]


def test_a_text_key_and_a_binary_key_of_equal_bytes_are_two_keys(broker: Broker, topic: str) -> None:
    send(broker, topic, "a=1")
    send_with_binary_key(broker, topic, b"a", b"2")
    send(broker, topic, "b=1")
    send_with_binary_key(broker, topic, b"b", b"")  # deletes only the binary key
    assert run(broker, topic)["kept_messages"] == 3
    assert read(broker, topic) == ["a=1", "YQ===2", "b=1"]


def test_executors_store_keys_with_their_own_address_of_the_database(broker: Broker, topic: str) -> None:
    send(broker, topic, "a=1", "a=2")
    with psycopg.connect(broker.process.database_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE executors LOGIN PASSWORD 'secret'")
        connection.execute("GRANT USAGE ON SCHEMA vela_read_v1 TO executors")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA vela_read_v1 TO executors")
        theirs = make_conninfo(broker.process.database_url, user="executors", password="secret")
        with pytest.raises(PipelineError, match="permission denied for table vela_compaction_key"):
            run(broker, topic, executors_url=theirs)
        connection.execute("GRANT INSERT ON vela_compaction_key TO executors")
        assert run(broker, topic, executors_url=theirs)["kept_messages"] == 1
    assert read(broker, topic) == ["a=2"]


def test_partitions_without_messages_are_passed_over(broker: Broker) -> None:
    parts = broker.topic("public/parts/compact-few")
    send(broker, parts, "a=1", "a=2")  # all of one key, so two of the three partitions stay empty
    found = run(broker, parts)
    assert (found["kept_messages"], found["removed_messages"]) == (1, 1)


def test_a_survey_that_does_not_continue_what_is_stored_is_refused(broker: Broker, topic: str) -> None:
    send(broker, topic, "a=1", "a=2")
    with psycopg.connect(broker.process.database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO vela_compaction_survey (topic_id, write_id, state, generation, begin_ledger, begin_entry,"
            " horizon_ledger, horizon_entry, error, kept_messages, removed_messages)"
            " SELECT t.id, 'late', 'ready', 7, 1, 1, l.id, 1, '', 0, 0 FROM vela_topic t"
            " JOIN vela_ledger l ON l.topic_id = t.id WHERE t.name LIKE '%%' || %s",
            (topic.rpartition("/")[2],),
        )
    assert run(broker, topic)["kept_messages"] == 1
    with psycopg.connect(broker.process.database_url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT state, error FROM vela_compaction_survey WHERE write_id = 'late'"
        ).fetchone()
        assert row is not None
        assert (row[0], "run the job again" in row[1]) == ("refused", True)

        def is_swept() -> bool:
            connection.execute("SELECT pg_notify('vela_policies', '')")
            return connection.execute("SELECT count(*) FROM vela_compaction_key").fetchone() == (0,)

        wait_until(is_swept, "the deletion of the keys", every_s=0.2)
    assert read(broker, topic) == ["a=2"]


def test_the_next_compaction_deletes_the_survey_of_a_job_that_was_killed_in_a_terminal(
    broker: Broker, topic: str
) -> None:
    send(broker, topic, "a=1", "a=2")
    with psycopg.connect(broker.process.database_url, autocommit=True) as connection:
        connection.execute(
            "WITH killed AS (INSERT INTO vela_compaction_survey (topic_id, write_id, state, generation, begin_ledger,"
            " begin_entry, horizon_ledger, horizon_entry, error, kept_messages, removed_messages)"
            " SELECT t.id, 'killed', 'reading', 0, -1, -1, l.id, 1, '', 0, 0 FROM vela_topic t"
            " JOIN vela_ledger l ON l.topic_id = t.id WHERE t.name LIKE '%%' || %s RETURNING id)"
            " INSERT INTO vela_compaction_key (survey_id, key, ledger_id, entry_id, batch_index, is_deleted)"
            " SELECT id, decode(md5('a'), 'hex'), 1, 1, 0, false FROM killed",
            (topic.rpartition("/")[2],),
        )
        assert run(broker, topic)["kept_messages"] == 1

        def is_forgotten() -> bool:
            connection.execute("SELECT pg_notify('vela_policies', '')")
            left = connection.execute(
                "SELECT count(*) FROM vela_compaction_survey s LEFT JOIN vela_compaction_key k ON k.survey_id = s.id"
                " WHERE s.write_id = 'killed' AND (s.state = 'reading' OR k.survey_id IS NOT NULL)"
            )
            return left.fetchone() == (0,)

        wait_until(is_forgotten, "the end of the survey and the deletion of its keys", every_s=0.2)
    assert read(broker, topic) == ["a=2"]


def test_an_unknown_topic_is_named(broker: Broker) -> None:
    with pytest.raises(TopicNotFound, match="nowhere"):
        run(broker, "persistent://public/default/nowhere")
