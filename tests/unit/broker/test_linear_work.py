"""Twice as much work costs about twice as many steps: in the flusher and the writer, for timeouts and parked pulls."""

from __future__ import annotations

from unittest.mock import patch

from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.log import topic_log, writer
from broker.log.scheduling import lanes, ready_logs
from broker.pulls import reader
from broker.pulls.values import ParkedPull, PullAsk
from broker.subscription.machine import redelivery
from broker.subscription.requests import AckRequest
from broker.subscription.storing import flusher
from tests.support.broker_harness import ManualClock, eventually
from tests.support.memory_broker import memory_broker
from tests.support.steps import counted_steps
from vela.wire.entry import decode_messages

MOST_GROWTH = 2.6  # quadratic work grows by 4


async def steps_of_flush(subscriptions: int) -> int:
    """Answer a receipt on each of this many subscriptions in one flush."""
    async with memory_broker(flushes=False) as run:
        consumers = [await run.consumer(subscription=f"s{at}", permits=1) for at in range(subscriptions)]
        (position,) = await (await run.producer()).publish(1)
        answers: list[BrokerError | None] = []
        for each in consumers:
            await each.has(1)
            assert each.consumer is not None
            each.consumer.ack([AckRequest(position)], cumulative=False, on_durable=answers.append)
        with counted_steps(flusher) as steps:
            await run.flushed()
        assert answers == [None] * subscriptions
        return steps.count


async def steps_of_appends(topics: int) -> int:
    """Store one entry in each of this many topics, all of which need a new ledger first."""
    async with memory_broker(ledger_max_entries=1) as run:
        producers = [await run.producer(f"t{at}") for at in range(topics)]
        for each in producers:
            await each.publish(1)
        with counted_steps(writer, topic_log, ready_logs, lanes) as steps:
            for each in producers:
                each.send()
            await eventually(lambda: all(len(each.receipts) == 2 for each in producers), "all to be stored")
        return steps.count


async def test_answering_receipts_costs_time_only_for_due_answers() -> None:
    assert await steps_of_flush(160) < MOST_GROWTH * await steps_of_flush(80)


async def test_topics_that_need_a_ledger_are_not_checked_at_every_turn() -> None:
    assert await steps_of_appends(160) < MOST_GROWTH * await steps_of_appends(80)


async def steps_of_timeouts(consumers: int) -> int:
    """Let ten deliveries to each of this many consumers time out together."""
    clock = ManualClock()
    async with memory_broker(clock=clock) as run:
        for number in range(consumers):
            await run.consumer(name=f"c{number}", permits=10, ack_timeout_ms=1000)
        await (await run.producer()).publish(10 * consumers)
        await eventually(
            lambda: run.subscription().dispatcher.unacked_messages == 10 * consumers, "deliveries"
        )
        clock.advance(1000)
        with counted_steps(redelivery) as steps:
            assert run.broker.deadlines.run_due() == 10 * consumers
        return steps.count


async def test_timeouts_of_many_consumers_cost_time_only_for_their_own_deliveries() -> None:
    assert await steps_of_timeouts(80) < MOST_GROWTH * await steps_of_timeouts(40)


async def test_a_message_is_decoded_once_for_all_parked_pulls_that_have_a_filter() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        ask = PullAsk(
            topic=TopicName.parse("t"),
            queue=0,
            offset=0,
            max_messages=32,
            matches=lambda _: False,
            may_suspend=True,
            suspend_timeout_ms=15_000,
        )
        waiting = [await run.broker.pull(ask) for _ in range(30)]
        with patch.object(reader, "decode_messages", side_effect=decode_messages) as decoded:
            await producer.publish(4)
        assert decoded.call_count == 4
        assert all(isinstance(each, ParkedPull) and not each.answer.done() for each in waiting)
