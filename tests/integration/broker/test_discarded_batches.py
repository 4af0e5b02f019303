"""The broker returns exactly the permits that it charged for entries that clients discard."""

from __future__ import annotations

import pytest

from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import AckRequest
from tests.support.broker_harness import BrokerRun, ConsumerProbe, running

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


def discard(consumer: ConsumerProbe, at: int, reason: str = "CHECKSUM_MISMATCH") -> None:
    """Discard an entry as a binary client does that cannot read it: one ack with the reason, and one permit."""
    assert consumer.consumer is not None
    consumer.consumer.ack([AckRequest(consumer.positions[at])], cumulative=False, validation_error=reason)
    consumer.flow(1)


def balance(consumer: ConsumerProbe) -> int:
    assert consumer.consumer is not None
    return consumer.consumer.dispatch.permits.balance


@pytest.mark.row("S0.19")
@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_a_hundred_discarded_batches_leave_the_permits_right(
    run: BrokerRun, type_: SubscriptionType
) -> None:
    producer = await run.producer()
    consumer = await run.consumer(type_=type_, permits=100)
    for sent in range(100):
        producer.send(messages=10)
        await consumer.has(sent + 1)
        discard(consumer, sent)
    assert balance(consumer) == 100
    await producer.publish(1)
    await consumer.has(101)
    assert run.subscription().cursor.backlog_messages == 1


@pytest.mark.row("S0.19")
@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_permits_of_acked_messages_are_not_restored_twice(
    run: BrokerRun, type_: SubscriptionType
) -> None:
    producer = await run.producer()
    consumer = await run.consumer(type_=type_, permits=20)
    producer.send(messages=10)
    await consumer.has(1)
    await consumer.ack_durably(consumer.positions[0], remaining=0b1111)
    consumer.flow(6)  # for six messages that the client took
    discard(consumer, 0, "BATCH_DESERIALIZE_ERROR")
    assert balance(consumer) == 20
    discard(consumer, 0)  # a repeated ack returns no permits again
    assert balance(consumer) == 21


@pytest.mark.row("S0.19")
async def test_a_discard_of_an_entry_pending_at_another_consumer_returns_no_permits(run: BrokerRun) -> None:
    producer = await run.producer()
    holder = await run.consumer(permits=10, name="holder")
    producer.send(messages=10)
    await holder.has(1)
    other = await run.consumer(permits=10, name="other")
    assert other.consumer is not None
    other.consumer.ack(
        [AckRequest(holder.positions[0])], cumulative=False, validation_error="CHECKSUM_MISMATCH"
    )
    assert (balance(holder), balance(other)) == (0, 10)


@pytest.mark.row("S0.16")
async def test_the_client_restores_permits_of_undecryptable_messages(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=20)
    producer.send(messages=10)
    await consumer.has(1)
    assert consumer.consumer is not None
    consumer.consumer.ack(
        [AckRequest(consumer.positions[0])], cumulative=False, validation_error="DECRYPTION_ERROR"
    )
    assert balance(consumer) == 10  # the client itself grants the ten permits


@pytest.mark.row("S0.18")
async def test_a_discard_is_an_ack_with_a_reason_that_is_counted(broker_url: str) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        await producer.publish(2)
        await consumer.has(2)
        discard(consumer, 0, "DECOMPRESSION_ERROR")
        consumer.ack(consumer.positions[1])
        subscription = run.subscription()
        assert subscription.cursor.backlog_messages == 0
        assert subscription.counters.validation_errors == {"DECOMPRESSION_ERROR": 1}
        assert balance(consumer) == 9
        assert consumer.consumer is not None
        consumer.consumer.redeliver(None)
        assert len(consumer.deliveries) == 2  # the discarded entry never comes again
