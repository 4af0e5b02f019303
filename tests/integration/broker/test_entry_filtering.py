"""Entries that are read but not sent."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any

import pytest

from broker.conf import BrokerSettings, SettingInvalid
from broker.core.entry import FLAG_MARKER
from broker.core.errors import UnsupportedVersion
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.process.broker import Broker
from broker.subscription.machine.state import Discard
from tests.support.broker_harness import (
    IDENTITY,
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.plugins import ByPayload, Recording
from vela.wire.entry import with_checksum

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED
NO_CACHE: dict[str, Any] = {"tail_cache_bytes": 0}
# The checksum is right, but these bytes are not metadata.
BAD_METADATA = with_checksum(b"\x00\x00\x00\x02\xff\xff")
FILTER = ("tests.support.plugins.ByPayload",)


@pytest.fixture(autouse=True)
def _fresh_plugins() -> None:
    ByPayload.is_later = True
    ByPayload.asked.clear()
    Recording.seen.clear()


def damage_payload(url: str, position: Position) -> None:
    """Flip one bit at the end of the entry."""
    rows(
        url,
        "UPDATE vela_entry_1 SET data = set_byte(data, length(data) - 1, get_byte(data, length(data) - 1) # 1)"
        " WHERE ledger_id = %s AND entry_id = %s",
        *position,
    )


def damage_metadata(url: str, position: Position) -> None:
    """Store a row that no producer can have sent."""
    rows(
        url,
        "UPDATE vela_entry_1 SET data = %s WHERE ledger_id = %s AND entry_id = %s",
        BAD_METADATA,
        *position,
    )


@pytest.mark.row("S1.2")
@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
@pytest.mark.parametrize("damage", [damage_payload, damage_metadata])
async def test_a_damaged_entry_is_acked_unsent_and_costs_no_permit(
    broker_url: str, type_: SubscriptionType, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(broker_url, **NO_CACHE) as run:
        producer = await run.producer()
        bad, good = await producer.publish(2)
        assert callable(damage)
        damage(broker_url, bad)
        with caplog.at_level(logging.ERROR):
            consumer = await run.consumer(type_=type_, permits=1)
            await consumer.has(1)
        assert consumer.positions == [good]
        consumer.ack(good)
        subscription = run.subscription()
        assert subscription.cursor.backlog_messages == 0
        assert subscription.counters.discarded[Discard.CORRUPT] == 1
        assert [r.message for r in caplog.records if f"entry {bad} is damaged" in r.message]
        assert 'reason="corrupt"} 1' in run.metrics_text()
        await run.flushed()
        assert one_row(broker_url, "SELECT mark_delete_entry FROM vela_cursor") == (good.entry_id,)


@pytest.mark.row("S1.2")
async def test_another_subscription_counts_a_damaged_entry_by_itself(broker_url: str) -> None:
    async with running(broker_url, **NO_CACHE) as run:
        producer = await run.producer()
        positions = await producer.publish(3)
        first = await run.consumer(subscription="before", permits=10)
        await first.has(3)
        damage_payload(broker_url, positions[1])
        second = await run.consumer(subscription="after", permits=10)
        await second.has(2)
        assert second.positions == [positions[0], positions[2]]
        assert run.subscription(subscription="before").cursor.backlog_messages == 3
        assert run.subscription(subscription="after").cursor.backlog_messages == 2


@pytest.mark.row("S1.3")
async def test_a_marker_is_acked_unsent_and_mark_delete_passes_it(run: BrokerRun) -> None:
    producer = await run.producer()
    consumer = await run.consumer(permits=2)
    producer.send(flags=FLAG_MARKER)
    producer.send()
    producer.send(flags=FLAG_MARKER)
    producer.send()
    await consumer.has(2)
    assert consumer.payloads == [b"1", b"3"]
    consumer.ack(*consumer.positions)
    subscription = run.subscription()
    assert subscription.cursor.backlog_messages == 0
    assert subscription.cursor.mark_delete == subscription.log.ledgers.last_position()
    assert subscription.counters.discarded[Discard.MARKER] == 2


@pytest.mark.row("S1.5")
async def test_sizes_and_ack_sets_stay_with_their_entries(broker_url: str) -> None:
    async with running(broker_url, **NO_CACHE) as run:
        producer = await run.producer()
        sizes = [2, 5, 3, 4, 1]
        for size in sizes:
            producer.send(messages=size)
        producer.send(flags=FLAG_MARKER)
        producer.send()
        await producer.has_receipts(7)
        positions = [Position(each.ledger_id, each.entry_id) for each in producer.receipts]
        first = await run.consumer(permits=100)
        await first.has(6)
        await first.ack_durably(positions[2], remaining=0b101)
        await first.ack_durably(positions[3], remaining=0b0110)
        assert first.consumer is not None
        first.consumer.detach()
        damage_payload(broker_url, positions[0])
        damage_payload(broker_url, positions[4])
        again = await run.consumer(permits=100)
        await again.has(4)
        got = [
            (Position(each.entry.ledger_id, each.entry.entry_id), each.entry.messages, each.remaining)
            for each in again.deliveries
        ]
        assert got == [
            (positions[1], 5, None),
            (positions[2], 3, 0b101),
            (positions[3], 4, 0b0110),
            (positions[6], 1, None),
        ]
        assert again.consumer is not None
        assert again.consumer.dispatch.permits.spent == 5 + 2 + 2 + 1


@pytest.mark.row("I20")
async def test_damaged_entries_end_in_one_ack_and_permits_are_conserved(broker_url: str) -> None:
    chance = random.Random(20)
    async with running(broker_url, **NO_CACHE) as run:
        producer = await run.producer()
        sizes = [chance.choice([1, 1, 4]) for _ in range(300)]
        for size in sizes:
            producer.send(messages=size)
        await producer.has_receipts(300)
        positions = [Position(each.ledger_id, each.entry_id) for each in producer.receipts]
        damaged = set(chance.sample(positions, 30))
        for position in damaged:
            chance.choice([damage_payload, damage_metadata])(broker_url, position)
        consumers = [await run.consumer(name=f"c{n}") for n in range(2)]
        good = [position for position in positions if position not in damaged]
        taken = [0, 0]
        while sum(len(each.deliveries) for each in consumers) < len(good):
            for number, each in enumerate(consumers):
                each.flow(7)
                await eventually(
                    lambda: (
                        all(
                            c.consumer is not None and c.consumer.dispatch.permits.balance <= 0
                            for c in consumers
                        )
                        or sum(len(c.deliveries) for c in consumers) == len(good)
                    ),
                    "permits to be spent",
                )
                each.ack(*each.positions[taken[number] :])
                taken[number] = len(each.positions)
        assert sorted(p for each in consumers for p in each.positions) == good
        for each in consumers:
            each.ack(*each.positions)
            assert each.consumer is not None
            assert each.consumer.dispatch.permits.spent == sum(d.entry.messages for d in each.deliveries)
            assert each.consumer.dispatch.unacked_messages == 0
        subscription = run.subscription()
        assert subscription.cursor.backlog_messages == 0
        expected = sum(size for size, position in zip(sizes, positions, strict=True) if position in damaged)
        assert subscription.counters.discarded[Discard.CORRUPT] == expected


# -- the project's own filters -------------------------------------------------------------------------------------


@pytest.mark.row("S1.7")
async def test_a_filter_accepts_rejects_or_puts_off_each_entry(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False, entry_filters=FILTER) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        for payload in (b"a", b"reject", b"later", b"raise", b"b"):
            producer.send(payload)
        await consumer.has(2)
        assert consumer.payloads == [b"a", b"b"]
        subscription = run.subscription()
        assert subscription.counters.discarded[Discard.FILTER] == 1
        assert subscription.counters.filter_errors == 1
        assert subscription.cursor.backlog_messages == 4
        assert consumer.consumer is not None
        assert consumer.consumer.dispatch.permits.spent == 2
        clock.advance(999)
        assert run.broker.deadlines.run_due() == 0
        ByPayload.is_later = False
        clock.advance(1)
        assert run.broker.deadlines.run_due() == 2
        await consumer.has(4)
        assert consumer.payloads[2:] == [b"later", b"raise"]
        assert [each.redelivery_count for each in consumer.deliveries] == [0, 0, 0, 0]
        assert ByPayload.asked[0].subscription_type == "Shared"


@pytest.mark.row("S1.7")
async def test_a_filter_that_puts_a_message_off_keeps_the_order_on_exclusive(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False, entry_filters=FILTER) as run:
        producer = await run.producer()
        consumer = await run.consumer(type_=EXCLUSIVE, permits=10)
        for payload in (b"a", b"later", b"reject", b"b"):
            producer.send(payload)
        await producer.has_receipts(4)
        await consumer.has(1)
        consumer.flow(5)
        assert consumer.payloads == [b"a"]
        clock.advance(1000)
        assert run.broker.deadlines.run_due() == 1  # the filter is asked again, and delays the entry again
        assert consumer.payloads == [b"a"]
        ByPayload.is_later = False
        clock.advance(1000)
        run.broker.deadlines.run_due()
        await consumer.has(3)
        assert consumer.payloads == [b"a", b"later", b"b"]


@pytest.mark.row("S1.7")
async def test_a_message_that_a_filter_puts_off_survives_a_reconnect_and_a_restart(broker_url: str) -> None:
    settings: dict[str, Any] = {"entry_filters": FILTER, "filter_reschedule_ms": 20}
    async with running(broker_url, **settings) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        for payload in (b"later", b"x"):
            producer.send(payload)
        await consumer.has(1)
        await consumer.ack_durably(*consumer.positions)
        assert consumer.consumer is not None
        consumer.consumer.detach()
        again = await run.consumer(permits=10)
        ByPayload.is_later = False
        await again.has(1)
        assert again.payloads == [b"later"]
    ByPayload.is_later = True
    async with running(broker_url, **settings) as run:
        consumer = await run.consumer(permits=10)
        await eventually(lambda: run.subscription().counters.reschedules > 1, "being asked twice")
        ByPayload.is_later = False
        await consumer.has(1)
        assert consumer.payloads == [b"later"]


@pytest.mark.row("S1.7")
async def test_a_nacked_entry_keeps_its_count_while_a_filter_puts_it_off(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False, entry_filters=FILTER) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=10)
        ByPayload.is_later = False
        producer.send(b"later")
        await consumer.has(1)
        ByPayload.is_later = True
        assert consumer.consumer is not None
        consumer.consumer.redeliver(consumer.positions)
        assert len(consumer.deliveries) == 1
        ByPayload.is_later = False
        clock.advance(1000)
        run.broker.deadlines.run_due()
        await consumer.has(2)
        assert consumer.deliveries[1].redelivery_count == 1


@pytest.mark.parametrize(
    ("setting", "paths", "complaint"),
    [
        ("entry_filters", ("nowhere.Filter",), "VELA_ENTRY_FILTERS: nowhere.Filter cannot be created"),
        ("entry_filters", ("tests.support.plugins.Broken",), "no configuration"),
        ("entry_filters", ("tests.support.plugins.Recording",), r"has no method verdict\(entry\)"),
        ("interceptors", FILTER, r"VELA_INTERCEPTORS: .* has no method sending\(entry\)"),
    ],
)
def test_a_plugin_that_cannot_work_ends_the_start(
    setting: str, paths: tuple[str, ...], complaint: str
) -> None:
    chosen: dict[str, Any] = {setting: paths}
    settings = replace(BrokerSettings.from_environment({}), **chosen)
    with pytest.raises(SettingInvalid, match=complaint):
        Broker(settings, "dbname=never_connected_to")


@pytest.mark.row("S1.19")
async def test_an_interceptor_sees_each_entry_and_its_failure_disturbs_nothing(
    broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    interceptors = ("tests.support.plugins.Failing", "tests.support.plugins.Recording")
    async with running(broker_url, interceptors=interceptors) as run:
        producer = await run.producer()
        consumer = await run.consumer(permits=100, name="reader")
        with caplog.at_level(logging.ERROR):
            await producer.publish(5)
            producer.send(messages=3)
            await consumer.has(6)
        assert [(each.ledger_id, each.entry_id) for each in Recording.seen] == consumer.positions
        assert [each.messages for each in Recording.seen] == [1, 1, 1, 1, 1, 3]
        assert {(each.subscription, each.consumer) for each in Recording.seen} == {("s", "reader")}
        failures = [r for r in caplog.records if "interceptor Failing failed" in r.message]
        assert len(failures) == 1
        assert run.broker.interception is not None
        assert run.broker.interception.failures == 6


# -- clients from before batches -----------------------------------------------------------------------------------


@pytest.mark.row("S1.8")
async def test_a_batch_ends_the_connection_of_an_old_client_and_goes_to_another(
    broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(broker_url, refuse_old_clients=False) as run:
        producer = await run.producer()
        await producer.publish(2)
        producer.send(messages=3)
        await producer.publish(1)
        old = ConsumerProbe()
        await run.attach(old, name="old", identity=replace(IDENTITY, protocol_version=3))
        with caplog.at_level(logging.WARNING):
            old.flow(100)
            await eventually(lambda: old.connection_closed, "the old client's end")
        assert old.payloads == [b"0", b"1", b"3"]
        assert "cannot split the batch" in caplog.text
        assert run.subscription().cursor.backlog_messages == 6
        new = await run.consumer(name="new", permits=100)
        await new.has(4)
        assert sorted(each.entry.messages for each in new.deliveries) == [1, 1, 1, 3]


@pytest.mark.row("S1.8")
async def test_a_new_client_beside_an_old_one_gets_the_batch_at_once(broker_url: str) -> None:
    async with running(broker_url, refuse_old_clients=False) as run:
        producer = await run.producer()
        old = ConsumerProbe()
        await run.attach(old, name="old", identity=replace(IDENTITY, protocol_version=3))
        old.flow(100)
        new = await run.consumer(name="new", permits=100)
        for _ in range(2):
            producer.send(messages=3)
        await new.has(2)
        assert not old.deliveries
        assert [each.entry.messages for each in new.deliveries] == [3, 3]


@pytest.mark.row("S1.8")
async def test_an_old_client_may_not_subscribe_once_a_batch_was_seen(broker_url: str) -> None:
    old_identity = replace(IDENTITY, protocol_version=3)
    async with running(broker_url) as run:
        producer = await run.producer()
        await producer.publish(2)
        before = ConsumerProbe()
        await run.attach(before, identity=old_identity)
        before.flow(10)
        await before.has(2)
        producer.send(messages=2)
        await eventually(lambda: before.connection_closed, "the old client's end")
        with pytest.raises(UnsupportedVersion, match="VELA_REFUSE_OLD_CLIENTS"):
            await run.attach(ConsumerProbe(), identity=old_identity)
        await run.attach(ConsumerProbe(), identity=replace(IDENTITY, protocol_version=4))
    async with running(broker_url) as run:  # a restarted broker still knows that the topic has batches
        with pytest.raises(UnsupportedVersion):
            await run.attach(ConsumerProbe(), identity=old_identity)
