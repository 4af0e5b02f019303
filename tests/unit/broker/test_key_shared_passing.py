"""Key_Shared: a message that waits for its time or a filter does not delay its key. Later the key's owner gets it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.core.subscription.types import SubscriptionType
from tests.support.broker_harness import ConsumerProbe, ManualClock
from tests.support.memory_broker import MemoryRun, memory_broker
from tests.support.plugins import ByPayload

KEY_SHARED = SubscriptionType.KEY_SHARED
SLOT = 4711
FILTER = ("tests.support.plugins.ByPayload",)


@pytest.fixture(autouse=True)
def _puts_off() -> Iterator[None]:
    ByPayload.is_later = True
    yield
    ByPayload.is_later = True
    ByPayload.asked.clear()


def pass_ms(run: MemoryRun, by_ms: int) -> None:
    assert isinstance(run.clock, ManualClock)
    run.clock.advance(by_ms)
    run.broker.deadlines.run_due()


async def newcomer_with_the_slot(run: MemoryRun) -> ConsumerProbe:
    """Make consumers join until one of them owns the slot, and return that consumer."""
    for number in range(50):
        joined = await run.consumer(type_=KEY_SHARED, name=f"new-{number}", permits=10)
        selector = run.subscription().dispatcher._selector  # type: ignore[attr-defined]
        assert joined.consumer is not None
        if selector.select(SLOT) is joined.consumer.dispatch:
            return joined
    raise AssertionError("nobody got the slot")


@pytest.mark.row("S1.4")
async def test_on_key_shared_later_messages_of_a_key_pass_a_delayed_one() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=KEY_SHARED, permits=10)
        producer.send(b"later", slot=SLOT, deliver_at_ms=run.clock.now_ms() + 1000)
        producer.send(b"now", slot=SLOT)
        await consumer.has(1)
        assert consumer.payloads == [b"now"]
        pass_ms(run, 1000)
        await consumer.has(2)
        assert consumer.payloads == [b"now", b"later"]


@pytest.mark.row("S1.4", "I9")
async def test_a_delayed_message_waits_for_the_consumer_with_its_key_pending() -> None:
    async with memory_broker() as run:
        producer = await run.producer()
        holder = await run.consumer(type_=KEY_SHARED, permits=10)
        producer.send(b"later", slot=SLOT, deliver_at_ms=run.clock.now_ms() + 1000)
        producer.send(b"now", slot=SLOT)
        await holder.has(1)
        owner = await newcomer_with_the_slot(run)
        pass_ms(run, 1000)
        assert owner.payloads == []
        holder.ack(holder.positions[0])
        await owner.has(1)
        assert owner.payloads == [b"later"]
        assert holder.payloads == [b"now"]


@pytest.mark.row("S1.7")
async def test_on_key_shared_later_messages_of_a_key_pass_one_that_a_filter_puts_off() -> None:
    async with memory_broker(entry_filters=FILTER) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=KEY_SHARED, permits=10)
        for payload in (b"later", b"now"):
            producer.send(payload, slot=SLOT)
        await consumer.has(1)
        assert consumer.payloads == [b"now"]
        ByPayload.is_later = False
        pass_ms(run, 1000)
        await consumer.has(2)
        assert consumer.payloads == [b"now", b"later"]


@pytest.mark.row("S1.7", "I9")
async def test_a_rescheduled_message_waits_for_the_consumer_with_its_key_pending() -> None:
    async with memory_broker(entry_filters=FILTER) as run:
        producer = await run.producer()
        holder = await run.consumer(type_=KEY_SHARED, permits=10)
        for payload in (b"later", b"now"):
            producer.send(payload, slot=SLOT)
        await holder.has(1)
        owner = await newcomer_with_the_slot(run)
        ByPayload.is_later = False
        pass_ms(run, 1000)
        assert owner.payloads == []
        holder.ack(holder.positions[0])
        await owner.has(1)
        assert owner.payloads == [b"later"]
