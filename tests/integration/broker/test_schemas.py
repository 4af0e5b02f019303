"""Schemas: stored by topic, versioned, checked; kept over a restart and deleted with the topic."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker.core.errors import IncompatibleSchema, SchemaNotFound
from broker.core.schemas.schema import SchemaDefinition, SchemaType, version_bytes
from broker.core.topic_name import TopicName
from broker.log.sealing import seal
from broker.storage.topics import topics as topic_store
from tests.support.broker_harness import BrokerRun, ProducerProbe, one_row, rows, running
from tests.support.lifetime import keeping, kept, look

T = TopicName.parse("t")


def record(*fields: dict[str, Any]) -> SchemaDefinition:
    definition = {"type": "record", "name": "R", "fields": list(fields)}
    return SchemaDefinition(type=SchemaType.JSON, data=json.dumps(definition).encode(), name="R")


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string", "default": ""}
FIRST, SECOND, BROKEN = record(A), record(A, B), record({"name": "c", "type": "int"})


def version(probe: ProducerProbe) -> bytes:
    assert probe.producer is not None
    return probe.producer.schema_version


async def test_a_deleted_schema_still_explains_stored_messages(broker_url: str) -> None:
    async with running(broker_url) as first:
        assert version(await first.producer(schema=FIRST)) == version_bytes(0)
        assert await first.broker.schemas.delete(T.base) == 1
        with pytest.raises(SchemaNotFound):
            await first.broker.get_schema(T, None)
        with pytest.raises(SchemaNotFound):
            await first.broker.schemas.delete(T.base)
        with pytest.raises(SchemaNotFound):
            await first.broker.get_schema(T, version_bytes(1))
    async with running(broker_url) as second:
        assert (await second.broker.get_schema(T, version_bytes(0)))[0].is_same(FIRST)
        # This schema is not compatible with the deleted one, and gets another version.
        assert version(await second.producer(schema=BROKEN)) == version_bytes(2)


async def test_versions_are_given_kept_and_found_again(broker_url: str) -> None:
    async with running(broker_url) as first:
        assert version(await first.producer(schema=FIRST)) == version_bytes(0)
        assert version(await first.producer(schema=FIRST)) == version_bytes(0)
        assert version(await first.producer(schema=SECOND)) == version_bytes(1)
        assert version(await first.producer()) == b""
    async with running(broker_url) as second:
        assert await second.broker.get_schema(T, None) == (SECOND, version_bytes(1))
        assert await second.broker.get_schema(T, version_bytes(0)) == (FIRST, version_bytes(0))
        with pytest.raises(SchemaNotFound, match="version 7"):
            await second.broker.get_schema(T, version_bytes(7))
        with pytest.raises(IncompatibleSchema, match="8 bytes"):
            await second.broker.get_schema(T, b"x")
        assert version(await second.producer(schema=FIRST)) == version_bytes(0)


async def test_an_incompatible_schema_is_refused_and_changes_nothing(run: BrokerRun) -> None:
    await run.producer(schema=FIRST)
    with pytest.raises(IncompatibleSchema, match="cannot read"):
        await run.producer(name="p", schema=BROKEN)
    assert "p" not in run.topic().producers
    with pytest.raises(IncompatibleSchema, match="NUL"):
        await run.producer(schema=SchemaDefinition(type=SchemaType.STRING, data=b"", name="\0"))
    with pytest.raises(IncompatibleSchema, match="the limit"):
        await run.producer(schema=SchemaDefinition(type=SchemaType.JSON, data=b"x" * 2_000_000))
    assert rows(run.database_url, "SELECT version FROM vela_schema") == [(0,)]


async def test_the_policy_decides_which_schemas_fit(run: BrokerRun) -> None:
    await run.policies("t", schema_compatibility="ALWAYS_COMPATIBLE")
    await run.producer(schema=FIRST)
    assert version(await run.producer(schema=BROKEN)) == version_bytes(1)
    await run.policies("t", schema_compatibility="AUTO_UPDATE_DISABLED")
    with pytest.raises(IncompatibleSchema, match="AUTO_UPDATE_DISABLED"):
        await run.producer(schema=SECOND)
    assert version(await run.producer(schema=FIRST)) == version_bytes(0)


async def test_enforced_validation_refuses_producers_without_a_schema(run: BrokerRun) -> None:
    await run.policies("t", schema_validation_enforced=True)
    await run.producer()
    await run.producer(schema=FIRST)
    with pytest.raises(IncompatibleSchema, match="schema_validation_enforced"):
        await run.producer()


async def test_a_consumer_whose_schema_cannot_read_the_topic_is_refused(run: BrokerRun) -> None:
    await run.producer(schema=FIRST)
    await run.consumer(subscription="same", schema=FIRST)
    await run.consumer(subscription="newer", schema=SECOND)
    await run.consumer(subscription="any", schema=SchemaDefinition(type=SchemaType.AUTO_CONSUME, data=b""))
    with pytest.raises(IncompatibleSchema, match="consumer's schema"):
        await run.consumer(subscription="other", schema=BROKEN)
    assert "other" not in run.topic().subscriptions
    assert rows(run.database_url, "SELECT version FROM vela_schema") == [(0,)]


async def test_the_first_consumer_of_an_idle_topic_brings_its_schema(run: BrokerRun) -> None:
    await run.consumer(schema=FIRST)
    assert await run.broker.get_schema(T, None) == (FIRST, version_bytes(0))
    producer = await run.producer("used")
    await producer.publish(1)
    with pytest.raises(IncompatibleSchema, match="no schema"):
        await run.consumer("used", schema=FIRST)


async def test_a_topic_whose_messages_are_all_trimmed_is_idle(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        await producer.publish(1)
        assert producer.producer is not None
        producer.producer.detach()
        with pytest.raises(IncompatibleSchema, match="no schema"):
            await run.consumer(schema=FIRST)
        assert await seal(run.broker.epochs, run.topic().log, kept(run)[0])
        await look(run)
        assert run.topic().log.ledgers.total_entries == 1
        await run.consumer(schema=FIRST)
        assert await run.broker.get_schema(T, None) == (FIRST, version_bytes(0))


async def test_partitions_share_their_parent_s_schemas(run: BrokerRun) -> None:
    parent = TopicName.parse("parts")
    async with run.broker.pool.use() as connection:
        await topic_store.create_topic(connection, parent, partitions=2, policies={})
    assert version(await run.producer("parts-partition-0", schema=FIRST)) == version_bytes(0)
    assert version(await run.producer("parts-partition-1", schema=SECOND)) == version_bytes(1)
    assert await run.broker.get_or_create_schema(parent, FIRST) == version_bytes(0)
    assert await run.broker.get_schema(parent.with_partition(1), None) == (SECOND, version_bytes(1))
    assert one_row(
        run.database_url, "SELECT count(DISTINCT topic_name), min(topic_name) FROM vela_schema"
    ) == (
        1,
        parent.full,
    )


async def test_two_producers_with_the_same_new_schema_get_one_version(run: BrokerRun) -> None:
    probes = await asyncio.gather(*(run.producer(schema=FIRST) for _ in range(5)))
    assert {version(each) for each in probes} == {version_bytes(0)}


async def test_a_version_that_another_process_stored_is_found(run: BrokerRun) -> None:
    await run.producer(schema=FIRST)
    rows(
        run.database_url,
        "INSERT INTO vela_schema (topic_name, version, type, name, data, properties, created_at)"
        " VALUES (%s, 1, 2, 'R', %s, '{}', now())",
        T.full,
        SECOND.data,
    )
    assert version(await run.producer(schema=SECOND)) == version_bytes(1)
    assert rows(run.database_url, "SELECT version FROM vela_schema ORDER BY version") == [(0,), (1,)]


async def test_schemas_are_deleted_with_their_topic(run: BrokerRun) -> None:
    await run.policies("t", deduplication=True)
    await run.producer(schema=FIRST)
    await run.broker.endings.delete(T, force=True)
    assert rows(run.database_url, "SELECT 1 FROM vela_schema") == []
    assert version(await run.producer(schema=BROKEN)) == version_bytes(0)


async def test_memory_has_no_schemas_of_topics_without_one(run: BrokerRun) -> None:
    for number in range(3):
        with pytest.raises(SchemaNotFound):
            await run.broker.get_schema(TopicName.parse(f"absent-{number}"), None)
    assert run.broker.schemas._known == {}
    await run.producer(schema=FIRST)
    assert version(await run.producer(schema=FIRST)) == version_bytes(0)
    assert list(run.broker.schemas._known) == [T.base]
    await run.broker.endings.delete(T, force=True)
    assert not run.broker.schemas._known
    assert not run.broker.schemas._adding


async def test_asking_for_no_schema_is_answered_with_an_empty_version(run: BrokerRun) -> None:
    none = SchemaDefinition(type=SchemaType.NONE, data=b"", name="BYTES")
    await run.producer()
    assert await run.broker.get_or_create_schema(T, none) == b""
    await run.producer(schema=FIRST)
    assert await run.broker.get_or_create_schema(T, none) == b""
    await run.policies("t", schema_validation_enforced=True)
    with pytest.raises(IncompatibleSchema, match="schema_validation_enforced"):
        await run.broker.get_or_create_schema(T, none)
    assert rows(run.database_url, "SELECT version FROM vela_schema") == [(0,)]
