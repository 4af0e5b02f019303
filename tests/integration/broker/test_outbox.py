"""The outbox's mover: it publishes a committed transaction's messages exactly once and in order, and no others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from broker.core.entry import FLAG_ORDERING_KEY
from broker.core.errors import NotAllowed, QuotaHold
from broker.core.producers.access import OUTBOX_PRODUCER
from broker.core.topic_name import TopicName
from broker.storage.queries import query
from broker.storage.topics import topics as topic_store
from broker.upkeep import outbox
from tests.support.broker_harness import BrokerRun, ConsumerProbe, eventually, one_row, rows, running
from tests.support.postgres_proxy import Moment
from vela.wire.entry import decode_messages, encode_single


def put(
    connection: psycopg.Connection, *payloads: bytes, topic: str = "t", key_hash: int | None = None
) -> None:
    for payload in payloads:
        data = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=payload)
        connection.execute(
            query("outbox", "add"),
            {"topic": topic, "key_hash": key_hash, "deliver_at_ms": 0, "data": data},
        )


@contextmanager
def session(url: str, *, autocommit: bool = False) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=autocommit) as connection:
        yield connection


def committed(url: str, *payloads: bytes, topic: str = "t", key_hash: int | None = None) -> None:
    with session(url) as connection:
        put(connection, *payloads, topic=topic, key_hash=key_hash)
    with session(url, autocommit=True) as connection:
        connection.execute(query("outbox", "wake"))


def payloads(consumer: ConsumerProbe) -> list[bytes]:
    return [
        message.payload
        for each in consumer.deliveries
        for message in decode_messages(each.entry.data, max_message_bytes=2**20)
    ]


async def has_moved(run: BrokerRun, count: int) -> None:
    """Wait until this many rows are known to be moved, or none is left."""
    await eventually(
        lambda: run.broker.outbox.moved >= count or left(run.database_url) == 0, f"{count} to be moved"
    )


def left(url: str) -> int:
    return int(one_row(url, "SELECT count(*) FROM vela_outbox")[0])


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_published_messages_arrive_in_order_and_leave_the_outbox(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=5000)
    committed(run.database_url, *numbers(1200))
    await consumer.has(1200)
    assert payloads(consumer) == numbers(1200)
    assert left(run.database_url) == 0
    assert run.broker.outbox.moved == 1200


async def test_an_ordering_key_is_distinguished_from_a_key(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    with session(run.database_url) as connection:
        for ordering_key in (None, b"o"):
            data = encode_single(
                producer_name="p",
                sequence_id=0,
                publish_time_ms=1,
                payload=b"",
                key="k",
                ordering_key=ordering_key,
            )
            row = {"topic": "t", "key_hash": 7, "deliver_at_ms": 0, "data": data}
            connection.execute(query("outbox", "add"), row)
    await consumer.has(2)
    assert [each.entry.flags for each in consumer.deliveries] == [0, FLAG_ORDERING_KEY]


async def test_messages_that_waited_for_a_broker_are_moved_first(broker_url: str) -> None:
    committed(broker_url, b"a", b"b")
    async with running(broker_url) as run:
        consumer = await run.consumer(permits=10)
        await consumer.has(2)
        assert payloads(consumer) == [b"a", b"b"]


async def test_an_open_transaction_keeps_only_its_own_messages_back(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=100)
    with session(run.database_url) as long, session(run.database_url) as undone:
        put(long, b"long")
        put(undone, b"never")
        committed(run.database_url, b"short")
        await consumer.has(1)
        assert payloads(consumer) == [b"short"]
        undone.rollback()
        long.commit()
    run.broker.outbox.wake()
    await consumer.has(2)
    committed(run.database_url, b"last")
    await consumer.has(3)
    assert payloads(consumer) == [b"short", b"long", b"last"]


async def test_without_a_notification_the_poll_finds_the_message(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    with session(run.database_url) as connection:
        put(connection, b"unannounced")
    await consumer.has(1)


async def test_keys_keep_to_one_partition(run: BrokerRun) -> None:
    async with run.broker.pool.use() as connection:
        await topic_store.create_topic(connection, TopicName.parse("t"), partitions=3, policies={})
    for slot in range(6):
        committed(run.database_url, *numbers(3), key_hash=slot)
    await eventually(lambda: run.broker.outbox.moved == 18, "all to be moved")
    for partition in range(3):
        assert run.topic(f"t-partition-{partition}").log.ledgers.total_messages == 6


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_crashes_move_each_message_once(broker_url: str, seed: int) -> None:
    chance = random.Random(seed)
    expected = numbers(900)
    committed(broker_url, *expected)
    for _ in range(3):
        async with running(broker_url) as run:
            await has_moved(run, chance.randrange(1, 250))
    async with running(broker_url) as run:
        consumer = await run.consumer(permits=5000)
        await eventually(lambda: left(broker_url) == 0, "an empty outbox")
        await consumer.has(900)
        assert payloads(consumer) == expected


async def test_a_topic_that_is_unloaded_meanwhile_gets_each_message_once(run: BrokerRun) -> None:
    committed(run.database_url, *numbers(900))
    for _ in range(5):
        await has_moved(run, run.broker.outbox.moved + 1)
        if (topic := run.broker.topics.loaded.get(TopicName.parse("t").full)) is not None:
            topic.log.close()
    await eventually(lambda: left(run.database_url) == 0, "an empty outbox")
    consumer = await run.consumer(permits=5000)
    await consumer.has(900)
    assert payloads(consumer) == numbers(900)


async def test_the_bytes_of_messages_on_their_way_are_limited(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_MOST_BYTES", 10_000)
    consumer = await run.consumer(permits=100)
    trap = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.HOLD_REQUEST)
    expected = [b"%d" % number + b"." * 4000 for number in range(20)]
    committed(run.database_url, *expected)
    await trap.caught.wait()
    await run.broker.outbox._move("t")
    assert len(run.broker.outbox._topics["t"].taken) == 3
    trap.release()
    await consumer.has(20)
    assert payloads(consumer) == expected


async def test_a_client_cannot_use_the_name_of_the_outbox_producer(run: BrokerRun) -> None:
    with pytest.raises(NotAllowed, match="vela-outbox is reserved"):
        await run.producer(name=OUTBOX_PRODUCER)
    committed(run.database_url, b"moved")
    consumer = await run.consumer(permits=1)
    await consumer.has(1)


async def test_a_topic_to_which_nothing_is_published_any_more_has_no_producer(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = await run.consumer(permits=10)
    committed(run.database_url, b"1")
    await consumer.has(1)
    run.broker.outbox.wake()
    await eventually(lambda: left(run.database_url) == 0, "an empty outbox")
    assert len(run.topic().producers) == 1
    monkeypatch.setattr(outbox, "IDLE_S", 0.0)
    await eventually(lambda: not run.topic().producers, "the producer to be let go")
    assert run.broker.outbox._topics == {}
    monkeypatch.setattr(outbox, "IDLE_S", 60.0)
    committed(run.database_url, b"2")
    await consumer.has(2)
    assert payloads(consumer) == [b"1", b"2"]


async def test_a_topic_that_refuses_keeps_its_messages_and_delays_no_other(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.producer("ended")
    run.topic("ended").is_terminated = True
    committed(run.database_url, b"refused", topic="ended")
    committed(run.database_url, b"bad name", topic="persistent://a/b")
    consumer = await run.consumer(permits=10)
    committed(run.database_url, b"fine")
    await consumer.has(1)
    await eventually(
        lambda: rows(run.database_url, "SELECT count(*) FROM vela_outbox WHERE error <> ''") == [(2,)],
        "the reasons",
    )
    reasons = dict(rows(run.database_url, "SELECT topic, error FROM vela_outbox"))
    assert "terminated" in reasons["ended"]
    assert "topic" in reasons["persistent://a/b"]
    run.topic("ended").is_terminated = False
    monkeypatch.setattr(outbox, "RETRY_S", 0.0)
    rows(run.database_url, "UPDATE vela_outbox SET retry_at = now()")
    await eventually(lambda: left(run.database_url) == 1, "the message to be moved after all")


async def test_rows_on_their_way_are_not_sent_again_after_a_quota_has_closed_the_producer(
    run: BrokerRun,
) -> None:
    consumer = await run.consumer(permits=10)
    committed(run.database_url, b"0")
    await consumer.has(1)
    trap = run.proxy.trap('INSERT INTO "vela_entry_1"', Moment.HOLD_REQUEST)
    committed(run.database_url, b"1", b"2")
    await trap.caught.wait()
    run.topic().close_producers(QuotaHold("the backlog has reached its quota"))
    await run.broker.outbox._move("t")  # the backlog is within the quota again
    trap.release()
    committed(run.database_url, b"3")
    await consumer.has(4)
    assert payloads(consumer) == numbers(4)
    assert left(run.database_url) == 0
