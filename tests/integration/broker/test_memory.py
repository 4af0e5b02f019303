"""The broker's memory is bounded, and is freed with the objects that it belongs to."""

from __future__ import annotations

from broker.core.cursor.state import AckOverlay
from broker.core.ledgers.message_index import CHUNK_ENTRIES
from broker.core.position import LATEST
from broker.log.cache import ENTRY_OVERHEAD_BYTES
from tests.support.broker_harness import BrokerRun, ManualClock, eventually, one_row, running
from tests.support.postgres_proxy import Moment


async def test_the_cache_keeps_to_its_budget_small_entries_included(broker_url: str) -> None:
    budget_bytes = 100 * ENTRY_OVERHEAD_BYTES
    async with running(broker_url, tail_cache_bytes=budget_bytes) as run:
        producer = await run.producer()
        await producer.publish(500)
        held = sum(len(ledger) for ledger in run.topic().log.cached.values())
        assert 50 < held <= 100
        assert run.broker.cache.size_bytes <= budget_bytes


async def test_counts_that_every_subscription_has_passed_are_dropped(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    positions = await producer.publish(2)
    await consumer.has(2)
    index, ledger_id = run.topic().log.index, positions[0].ledger_id
    for chunk in range(1, 4):
        index.record(ledger_id, chunk * CHUNK_ENTRIES, [1], [1])
    consumer.ack(*positions)
    assert len(index) == 4
    run.subscription().cursor._mark_delete = LATEST
    await run.broker._housekeeping._tidy_memory()
    assert len(index) == 4, "its entries are in memory, and may be delivered and acked again"
    run.topic().log.cached.clear()
    await eventually(lambda: len(index) == 1, "the housekeeping to drop them", timeout_s=5)


async def test_acks_are_recorded_for_an_undo_only_while_there_can_be_one(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        await run.consumer()
        subscription = run.subscription()
        subscription.record_for_undo(1, clock.now_ms() + 1000, AckOverlay())
        clock.advance(1000)
        await eventually(
            lambda: subscription.cursor.undo_overlay() is None, "the recording to end", timeout_s=5
        )


async def test_nothing_stays_of_clients_that_came_and_went(run: BrokerRun) -> None:
    producer = await run.producer()
    for number in range(30):
        consumer = await run.consumer(permits=10, name=f"c{number}", ack_timeout_ms=60_000)
        reader = await run.consumer(subscription=f"r{number}", durable=False, permits=10)
        short = await run.producer(name=f"p{number}")
        await producer.publish(1)
        await consumer.has(1)
        for each in (consumer.consumer, reader.consumer):
            assert each is not None
            each.detach()
        assert short.producer is not None
        await short.producer.close()
    topic, subscription = run.topic(), run.subscription()
    assert list(topic.subscriptions) == ["s"]
    assert len(topic.producers) == 1
    assert not subscription.consumers
    assert len(subscription.deadlines) == 0
    assert subscription.dispatcher.unacked_messages == 0
    assert not topic.log.queue
    assert topic.log.in_flight is None
    await eventually(lambda: not len(run.broker.tasks), "every task of theirs to end")
    await eventually(lambda: not run.broker.reporter._gone_consumers, "their rows to go")
    await eventually(
        lambda: one_row(run.database_url, "SELECT count(*) FROM vela_consumer_session") == (0,),
        "their rows to be gone",
    )


async def test_a_fenced_topic_leaves_nothing_behind(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=10)
    await producer.publish(3)
    trap = run.proxy.trap("SELECT entry_id, messages, flags", Moment.HOLD_REQUEST)
    topic = run.topic()
    topic.log.cached.clear()
    assert consumer.consumer is not None
    consumer.consumer.redeliver(None)
    await trap.caught.wait()
    topic.log.fence("the test says so")
    trap.release()
    assert run.broker.topics.loaded == {}
    assert not topic.producers
    assert all(not each.consumers for each in topic.subscriptions.values())
    await eventually(
        lambda: all(not each.is_reading for each in topic.subscriptions.values()),
        "its read to end",
    )
