"""The broker's reports for the console, once a second: they name only existing objects, and survive a refused row."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from broker.clock import Clock
from broker.core.producers.access import AccessMode
from broker.core.subscription.departure import DepartureCause
from broker.core.subscription.standing import SubscriptionState
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.process.reports import reporter
from broker.process.reports.statistics import partitioned_statistics
from broker.storage.connection import connect
from broker.storage.cursors.obstacles import broker_ended
from broker.storage.topics import topics as topic_store
from tests.support.broker_harness import BrokerRun, one_row, rows, running
from tests.support.postgres_proxy import Moment

T = TopicName.parse("t")
OF_SUBSCRIPTION = """
    SELECT y.consumers, n.messages_in - y.acked_messages, y.message_rate_acked
    FROM vela_subscription_summary y JOIN vela_subscription s ON s.id = y.subscription_id
    JOIN vela_topic_summary n ON n.topic_id = s.topic_id WHERE s.name = 's'"""
OF_TOPIC = """
    SELECT y.messages_in, y.producers, y.message_rate_in
    FROM vela_topic_summary y JOIN vela_topic t ON t.id = y.topic_id WHERE t.name = %s"""
LISTED = """
    SELECT l.backlog_messages, l.last_append_ms, l.state, y.worst_subscription
    FROM vela_listed_topic l LEFT JOIN vela_topic_summary y ON y.topic_id = l.topic_id WHERE l.name = %s"""
PARTED = TopicName.parse("parted")
OTHER = "persistent://public/default/other"


@pytest.fixture
async def run(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BrokerRun]:
    """A broker that reports when the test says so."""
    monkeypatch.setattr(reporter, "INTERVAL_S", 3600.0)
    async with running(broker_url) as started:
        yield started


async def report(run: BrokerRun) -> None:
    """Write the next report."""
    await run.broker.reporter._report()


async def publish(run: BrokerRun, topic: str, count: int) -> None:
    """Publish this many messages with a producer that then leaves."""
    probe = await run.producer(topic)
    await probe.publish(count)
    assert probe.producer is not None
    probe.producer.detach()


async def test_a_topic_reloaded_between_two_reports_is_reported_as_it_is_now(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10, acks=True)
    await publish(run, "t", 3)
    await consumer.has(3)
    await report(run)
    for _ in range(2):  # so the counts of three objects change before one report
        await publish(run, "t", 1)
        await run.broker.endings.unload([T])
        consumer = await run.consumer(permits=10)
    await publish(run, "t", 2)
    await consumer.has(2)
    await publish(run, "other", 4)
    await report(run)
    assert one_row(run.database_url, OF_SUBSCRIPTION)[:2] == (1, 3)
    assert one_row(run.database_url, OF_TOPIC, T.full)[0] == 7
    assert one_row(run.database_url, OF_TOPIC, OTHER)[0] == 4
    await publish(run, "other", 1)
    await report(run)
    assert one_row(run.database_url, OF_TOPIC, OTHER)[0] == 5


async def test_a_late_report_of_an_unloaded_topic_does_not_replace_that_of_the_loaded_one(
    run: BrokerRun,
) -> None:
    await run.consumer()
    old = run.topic()
    await run.broker.endings.unload([T])
    await run.consumer()
    await publish(run, "t", 2)
    await report(run)
    run.broker.reporter.subscription_changed(old.subscriptions["s"])
    await report(run)
    assert one_row(run.database_url, OF_SUBSCRIPTION)[:2] == (1, 2)
    assert one_row(run.database_url, OF_TOPIC, T.full)[0] == 2


async def test_a_failed_report_keeps_the_newest_rows(run: BrokerRun) -> None:
    await run.consumer()
    trap = run.proxy.trap("INSERT INTO vela_subscription_summary", Moment.LOSE_REQUEST)
    with pytest.raises(psycopg.OperationalError):
        await report(run)
    assert trap.caught.is_set()
    await run.broker.endings.unload([T])
    await run.consumer()
    await publish(run, "t", 2)
    await report(run)
    assert one_row(run.database_url, OF_SUBSCRIPTION)[:2] == (1, 2)


async def test_no_client_stays_connected_to_an_unloaded_topic(run: BrokerRun) -> None:
    producer = await run.producer()
    await run.consumer(permits=10, acks=True)
    await producer.publish(3)
    await report(run)
    await producer.publish(3)
    await report(run)
    assert one_row(run.database_url, OF_SUBSCRIPTION)[0] == 1
    assert one_row(run.database_url, OF_TOPIC, T.full)[2] > 0
    await run.broker.endings.unload([T])
    await report(run)
    assert one_row(run.database_url, OF_SUBSCRIPTION) == (0, 0, 0.0)
    assert one_row(run.database_url, OF_TOPIC, T.full) == (6, 0, 0.0)
    assert rows(run.database_url, "SELECT name FROM vela_producer_session") == []
    assert rows(run.database_url, "SELECT name FROM vela_consumer_session") == []
    assert not run.broker.reporter.rates.moving(run.clock.now_ms()).topics


class _LaterClock:
    """A clock that runs ahead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.later_ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.later_ms


async def test_consumers_and_producers_are_reported_with_their_rates_until_these_are_zero(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await run.producer(name="p")
    consumer = await run.consumer(permits=10, acks=True)
    reader = await run.consumer(subscription="r", durable=False, permits=10)
    await report(run)
    await producer.publish(6)
    await consumer.has(6)
    await reader.has(6)
    await report(run)
    for rate_in, byte_rate in rows(
        run.database_url, "SELECT message_rate_in, byte_rate_in FROM vela_producer_session WHERE name = 'p'"
    ):
        assert 0 < rate_in < byte_rate
    moving = (
        "SELECT message_rate_out, message_rate_acked, message_rate_redelivered FROM vela_consumer_session"
    )
    of_subscriptions = f"{moving} WHERE subscription_id IS NOT NULL"
    out, acked, again = one_row(run.database_url, of_subscriptions)
    assert (out > 0, acked > 0, again) == (True, True, 0)
    (read, *_) = one_row(run.database_url, f"{moving} WHERE subscription_id IS NULL")
    assert read > 0
    later = _LaterClock(run.clock)
    monkeypatch.setattr(run.broker.reporter, "_clock", later)
    for _ in range(60):
        later.later_ms += 1000
        await report(run)
    assert set(rows(run.database_url, moving)) == {(0.0, 0.0, 0.0)}
    assert one_row(run.database_url, "SELECT message_rate_in FROM vela_producer_session") == (0.0,)
    still = run.broker.reporter.rates.moving(later.now_ms())
    assert (still.topics, still.subscriptions) == (set(), set())


async def test_a_consumer_is_reported_with_the_age_of_its_oldest_message(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    oldest = "SELECT oldest_delivered_ms, protocol_version FROM vela_consumer_session"
    await report(run)
    assert one_row(run.database_url, oldest) == (0, 21)
    await publish(run, "t", 2)
    await consumer.has(2)
    await report(run)
    (first_ms, _) = one_row(run.database_url, oldest)
    assert first_ms > 0
    consumer.ack(*consumer.positions)
    await report(run)
    assert one_row(run.database_url, oldest) == (0, 21)


async def test_a_producer_is_reported_with_why_its_message_was_refused(run: BrokerRun) -> None:
    producer = await run.producer(name="p", access_mode=AccessMode.EXCLUSIVE)
    await report(run)
    said = "SELECT access_mode, deduplicated, last_error FROM vela_producer_session"
    assert one_row(run.database_url, said) == ("Exclusive", False, "")
    await run.policies(deduplication=True)
    run.topic().is_terminated = True
    producer.send(b"late")
    await report(run)
    mode, deduplicated, error = one_row(run.database_url, said)
    assert (mode, deduplicated) == ("Exclusive", True)
    assert error.startswith("TopicTerminatedError: ")


async def test_only_the_topic_of_a_row_that_postgresql_refuses_goes_unreported(
    run: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    others = [f"t{number}" for number in range(5)]
    for name in others:
        await publish(run, name, 1)
    guilty = await run.consumer("guilty", permits=1)
    assert guilty.consumer is not None
    guilty.consumer.messages_acked = 1 << 70
    leaving = await run.consumer("leaving")
    await report(run)
    assert leaving.consumer is not None
    leaving.consumer.detach()
    for name in others:
        await publish(run, name, 1)
    guilty.flow(1)
    await publish(run, "guilty", 1)
    await guilty.has(1)
    await report(run)
    for name in others:
        assert one_row(run.database_url, OF_TOPIC, f"persistent://public/default/{name}")[0] == 2
    assert rows(run.database_url, "SELECT name FROM vela_consumer_session") == []
    said = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(said) == 1, said
    assert (
        "refused a topic's report; its next change reports it again: persistent://public/default/guilty"
        in said[0]
    )
    guilty.consumer.messages_acked = 0
    guilty.flow(1)
    await publish(run, "guilty", 1)
    await guilty.has(2)
    await report(run)
    assert one_row(run.database_url, OF_TOPIC, "persistent://public/default/guilty")[0] == 2


async def test_publishing_raises_every_backlog_and_writes_no_row_of_a_subscription(run: BrokerRun) -> None:
    for name in ("a", "b"):
        await run.consumer(subscription=name)
    await report(run)
    before = rows(
        run.database_url, "SELECT xmin::text FROM vela_subscription_summary ORDER BY subscription_id"
    )
    await publish(run, "t", 3)
    await report(run)
    after = rows(
        run.database_url, "SELECT xmin::text FROM vela_subscription_summary ORDER BY subscription_id"
    )
    assert after == before
    found = (await partitioned_statistics(run.broker.pool, T)).total
    size_bytes = run.subscription(subscription="a").cursor.backlog_bytes
    assert [(each.backlog_messages, each.backlog_bytes) for each in found.subscriptions] == [
        (3, size_bytes)
    ] * 2


OF_PRODUCERS = "SELECT name FROM vela_producer_session ORDER BY name"


async def test_producers_that_others_fenced_are_not_listed_any_more(run: BrokerRun) -> None:
    await run.producer(name="fenced", access_mode=AccessMode.EXCLUSIVE)
    await run.producer(name="waiting", access_mode=AccessMode.WAIT_FOR_EXCLUSIVE)
    await report(run)
    owner = await run.producer(name="owner", access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await report(run)
    assert rows(run.database_url, OF_PRODUCERS) == [("owner",)]
    owner.alive = False
    again = await run.producer(name="owner", access_mode=AccessMode.EXCLUSIVE, topic_epoch=1)
    await report(run)
    assert rows(run.database_url, OF_PRODUCERS) == [("owner",)]
    assert again.producer is not None
    again.producer.detach()
    await report(run)
    assert rows(run.database_url, OF_PRODUCERS) == []
    assert one_row(run.database_url, OF_TOPIC, T.full)[1] == 0


OBSTACLES = """
    SELECT h.blocked, h.rate_limited, h.gap, h.active_consumer, h.first_redeliveries, h.key_waiting_entries,
           h.key_is_draining FROM vela_subscription_obstacles h"""
LEFT = "SELECT d.name, d.cause, d.detail FROM vela_consumer_departure d"


async def test_the_obstacles_of_a_delivery_are_written_when_they_change(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    await publish(run, "t", 2)
    await consumer.has(2)
    await report(run)
    assert one_row(run.database_url, OBSTACLES) == (False, False, "", 0, 0, 0, False)
    written = one_row(run.database_url, "SELECT xmin::text FROM vela_subscription_obstacles")
    await publish(run, "t", 1)
    await consumer.has(3)
    await report(run)
    assert one_row(run.database_url, "SELECT xmin::text FROM vela_subscription_obstacles") == written
    assert consumer.consumer is not None
    for _ in range(3):
        consumer.consumer.redeliver(consumer.positions[:1])
    await report(run)
    assert one_row(run.database_url, OBSTACLES)[4] == 3
    # PostgreSQL empties this unlogged table after a crash.
    rows(run.database_url, "DELETE FROM vela_subscription_obstacles RETURNING 1")
    run.broker._report_anew()
    await report(run)
    assert one_row(run.database_url, OBSTACLES)[4] == 3


async def test_idle_clients_are_reported_under_an_epoch_that_this_process_advanced(run: BrokerRun) -> None:
    """Otherwise the sweep of an earlier owner's rows would delete theirs: the console would not show them."""
    await run.producer()
    await run.consumer()
    await report(run)
    log = run.topic().log
    before = log.owner_epoch
    assert await run.broker.epochs.advance({log: before}) == {log}
    assert log.owner_epoch != before
    await report(run)
    for table in ("vela_consumer_session", "vela_producer_session"):
        assert rows(run.database_url, f"SELECT owner_epoch FROM {table}") == [(log.owner_epoch,)]


async def test_the_key_that_makes_others_wait_is_written_with_its_consumer(run: BrokerRun) -> None:
    holder = await run.consumer(type_=SubscriptionType.KEY_SHARED, name="a", permits=1000)
    producer = await run.producer()
    for number in range(200):
        producer.send(slot=1 + number * 300)
    await holder.has(200)
    await run.consumer(type_=SubscriptionType.KEY_SHARED, name="b", permits=1000)
    for number in range(200):
        producer.send(slot=1 + number * 300)
    await producer.has_receipts(400)
    await report(run)
    assert holder.consumer is not None
    found = one_row(
        run.database_url,
        "SELECT key_slot >= 0, key_consumer, key_waiting_entries > 0, key_is_draining FROM vela_subscription_obstacles",
    )
    assert found == (True, holder.consumer.key, True, True)


async def test_a_departure_says_who_left_last_and_why(run: BrokerRun) -> None:
    await run.consumer(name="lost")
    closed = await run.consumer(name="closed")
    await report(run)
    assert rows(run.database_url, LEFT) == []
    (lost,) = [each for each in run.subscription().consumers.values() if each.name == "lost"]
    lost.detach()
    await report(run)
    assert one_row(run.database_url, LEFT) == ("lost", "lost", "")
    assert closed.consumer is not None
    closed.consumer.detach(DepartureCause.CLOSED)
    await report(run)
    assert one_row(run.database_url, LEFT) == ("closed", "closed", "")
    await run.consumer(name="sent away")
    run.subscription().close_consumers("the topic moves")
    await report(run)
    assert one_row(run.database_url, LEFT) == ("sent away", "broker", "the topic moves")


async def test_consumers_of_a_broker_that_ended_have_left(run: BrokerRun) -> None:
    await run.consumer(name="a")
    await report(run)
    async with run.broker.reporter._pool.use() as connection:
        await broker_ended(connection)
    assert one_row(run.database_url, LEFT) == ("a", "lost", "its connection ended with the broker")
    assert rows(run.database_url, "SELECT 1 FROM vela_subscription_obstacles") == []


async def test_the_row_of_a_partitioned_topic_in_lists_has_the_sums_of_its_partitions(run: BrokerRun) -> None:
    connection = await connect(run.database_url, name="test")
    await topic_store.create_topic(connection, PARTED, partitions=2, policies={})
    await connection.close()
    assert one_row(run.database_url, LISTED, PARTED.full) == (-1, -1, 2047, None)
    for number, subscription in enumerate(("slow", "slower")):
        await run.consumer(f"parted-partition-{number}", subscription=subscription)
        await publish(run, f"parted-partition-{number}", 3 + number)
    await run.consumer("t", subscription="slow")
    await publish(run, "t", 2)
    await report(run)
    appended_ms = max(run.topic(f"parted-partition-{number}").last_append_ms for number in range(2))
    state = SubscriptionState.WATCHING.value
    assert one_row(run.database_url, LISTED, PARTED.full) == (7, appended_ms, state, None)
    assert one_row(run.database_url, LISTED, T.full) == (2, run.topic().last_append_ms, state, "slow")
    await publish(run, "parted-partition-0", 1)
    await report(run)
    assert one_row(run.database_url, LISTED, PARTED.full)[0] == 8
    await run.broker.endings.delete(PARTED, force=True)
    assert rows(run.database_url, "SELECT name FROM vela_listed_topic") == [(T.full,)]
