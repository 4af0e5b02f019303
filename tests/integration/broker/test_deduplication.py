"""Deduplication: a message that is sent again is stored once, whichever process dies in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import psycopg
import pytest

from broker.core.errors import NotAllowed
from broker.core.position import Position
from broker.core.producers.access import AccessMode
from broker.producers.deduplication import mark_of_entry
from broker.producers.internal_producer import InternalProducer
from tests.support import entries
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    ProducerProbe,
    eventually,
    one_row,
    rows,
    running,
)
from tests.support.lifetime import keeping, kept, look, publish_ledgers
from tests.support.postgres_proxy import Moment
from vela.wire.entry import decode_messages

APPEND = 'INSERT INTO "vela_entry_1"'
FORGET = "DELETE FROM vela_deduplicated_producer d USING o"


@pytest.fixture
async def dedup(run: BrokerRun) -> BrokerRun:
    await run.policies("t", deduplication=True)
    return run


def send(probe: ProducerProbe, *sequence_ids: int) -> None:
    assert probe.producer is not None
    for sequence_id in sequence_ids:
        probe.send_entry(entries.single(probe.producer.name, sequence_id))


def positions(probe: ProducerProbe) -> list[tuple[int, int]]:
    return [(each.sequence_id, each.entry_id) for each in probe.receipts]


def stored(run: BrokerRun) -> list[int]:
    """Return the sequence ids of all messages in the log, in its order."""
    data = rows(run.database_url, "SELECT data FROM vela_entry ORDER BY ledger_id, entry_id")
    return [
        message.sequence_id
        for (entry,) in data
        for message in decode_messages(bytes(entry), max_message_bytes=10**6)
    ]


async def test_a_repeated_message_gets_a_receipt_and_is_not_stored(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0, 1, 2)
    await producer.has_receipts(3)
    send(producer, 1, 3, 2)
    await producer.has_receipts(6)
    assert positions(producer) == [(0, 0), (1, 1), (2, 2), (1, -1), (3, 3), (2, -1)]
    assert producer.receipts[3].ledger_id == -1
    assert stored(dedup) == [0, 1, 2, 3]


async def test_without_the_policy_everything_is_stored(run: BrokerRun) -> None:
    producer = await run.producer(name="p")
    send(producer, 0, 0)
    await producer.has_receipts(2)
    assert stored(run) == [0, 0]
    assert producer.producer is not None
    assert producer.producer.last_sequence_id == -1


async def test_a_producer_that_requires_deduplication_is_refused_without_it(run: BrokerRun) -> None:
    required = {"vela.requires": "deduplication"}
    with pytest.raises(
        NotAllowed, match=r"public/default/t does not deduplicate, .*: set the topic's policy"
    ):
        await run.producer(name="p", properties=required)
    with pytest.raises(NotAllowed, match="does not deduplicate"):
        await run.producer("non-persistent://public/default/n", name="p", properties=required)
    await run.policies("t", deduplication=True)
    await run.producer(name="p", properties=required)
    await run.policies("t", deduplication=False)
    with pytest.raises(NotAllowed, match="does not deduplicate"):
        await run.producer(name="q", properties=required)


async def test_a_producer_opens_again_only_after_its_sends_in_flight_are_stored(
    dedup: BrokerRun,
) -> None:
    first = await dedup.producer(name="p")
    send(first, 0)
    await first.has_receipts(1)
    trap = dedup.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    send(first, 1, 2)
    await trap.caught.wait()
    send(first, 2, 3, 1)
    first.producer.detach()  # type: ignore[union-attr]
    opening = asyncio.create_task(dedup.producer(name="p"))
    await asyncio.sleep(0)
    assert not opening.done(), "sends of the earlier connection may still be stored"
    trap.release()
    again = await opening
    assert again.producer is not None
    assert again.producer.last_sequence_id == 3
    send(again, 2, 3, 4)
    await again.has_receipts(3)
    assert positions(again) == [(2, -1), (3, -1), (4, 4)]
    assert stored(dedup) == [0, 1, 2, 3, 4]


class LastWords(ProducerProbe):
    """A producer whose last messages arrive while the broker waits for its answer to a ping."""

    async def is_alive(self) -> bool:
        send(self, 1, 2)
        await asyncio.sleep(0)
        return False


async def test_a_producer_continues_after_messages_sent_under_its_name_while_it_opened(
    dedup: BrokerRun,
) -> None:
    first = await dedup.open(LastWords(), name="p")
    send(first, 0)
    await first.has_receipts(1)
    again = await dedup.producer(name="p")
    assert again.producer is not None
    assert again.producer.last_sequence_id == 2


async def test_a_producer_that_waited_continues_after_messages_sent_under_its_name(dedup: BrokerRun) -> None:
    first = await dedup.producer(name="p", access_mode=AccessMode.WAIT_FOR_EXCLUSIVE)
    ready = asyncio.Event()
    second = await dedup.producer(
        name="p", access_mode=AccessMode.WAIT_FOR_EXCLUSIVE, on_ready=lambda: ready.set()
    )
    trap = dedup.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    send(first, 0, 1)
    await trap.caught.wait()
    assert first.producer is not None
    first.producer.detach()
    trap.release()
    await asyncio.wait_for(ready.wait(), 10)
    assert second.producer is not None
    assert second.producer.last_sequence_id == 1
    send(second, 2)
    await second.has_receipts(1)
    assert stored(dedup) == [0, 1, 2]


async def test_receipts_of_repeats_in_flight_keep_the_order_of_the_sends(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    trap = dedup.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    send(producer, 5, 5, 3, 6, 5, 6, 7)
    await trap.caught.wait()
    assert len(producer.receipts) == 1
    trap.release()
    await producer.has_receipts(8)
    assert [each.sequence_id for each in producer.receipts] == [0, 5, 5, 3, 6, 5, 6, 7]
    assert stored(dedup) == [0, 5, 6, 7]


async def test_a_send_that_is_refused_at_once_lets_no_repeat_pass_an_earlier_send(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    topic = dedup.topic()
    topic.set_policies(replace(topic.policies, max_delay_ms=1000))
    trap = dedup.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    send(producer, 1)
    await trap.caught.wait()
    send(producer, 0)
    producer.send(deliver_at_ms=2**62)
    assert len(producer.failed) == 1
    send(producer, 0)
    assert len(producer.receipts) == 1
    trap.release()
    await producer.has_receipts(4)
    assert [each.sequence_id for each in producer.receipts] == [0, 1, 0, 0]


async def test_a_refused_append_frees_its_sequence_ids(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    rows(
        dedup.database_url,
        "ALTER TABLE vela_entry_1 ADD CONSTRAINT test_refuse CHECK (entry_id <> 1) NOT VALID",
    )
    send(producer, 1, 1)
    await eventually(lambda: producer.closed, "the producer is closed")
    assert [request.sequence_id for request, _ in producer.failed] == [1, 1]
    rows(dedup.database_url, "ALTER TABLE vela_entry_1 DROP CONSTRAINT test_refuse")
    again = await dedup.producer(name="p")
    assert again.producer is not None
    assert again.producer.last_sequence_id == 0
    send(again, 1)
    await again.has_receipts(1)
    assert stored(dedup) == [0, 1]


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER])
async def test_a_repeat_during_an_unknown_outcome_is_stored_once(dedup: BrokerRun, moment: Moment) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    trap = dedup.proxy.trap(APPEND, moment)
    send(producer, 1)
    await trap.caught.wait()
    send(producer, 1, 2)
    await producer.has_receipts(4)
    assert [each.sequence_id for each in producer.receipts] == [0, 1, 1, 2]
    assert stored(dedup) == [0, 1, 2]


async def test_a_batch_is_compared_by_the_number_of_its_last_message(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    producer.send_entry(entries.batch_without_highest("p", [0, 10, 20]))
    await producer.has_receipts(1)
    producer.send_entry(entries.batch_without_highest("p", [10, 20]))
    send(producer, 20, 21)
    await producer.has_receipts(4)
    assert positions(producer) == [(0, 0), (10, -1), (20, -1), (21, 1)]
    other = await dedup.producer(name="q")
    send(other, 20)
    await other.has_receipts(1)
    assert stored(dedup) == [0, 10, 20, 21, 20]


async def test_chunks_are_stored_once_each(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    parts = [entries.chunk("p", 7, chunk_id, 4) for chunk_id in range(4)]
    for part in parts[:3]:
        producer.send_entry(part)
    await producer.has_receipts(3)
    for part in [*parts[1:], parts[3], parts[1]]:
        producer.send_entry(part)
    await producer.has_receipts(8)
    assert [each.entry_id for each in producer.receipts] == [0, 1, 2, -1, -1, 3, -1, -1]
    assert producer.producer is not None
    assert await dedup.topic().deduplication.last_sequence_id("p") == 7  # type: ignore[union-attr]


@pytest.mark.parametrize("flushes", [False, True], ids=["nothing flushed", "half flushed"])
async def test_after_a_crash_nothing_is_stored_twice(broker_url: str, flushes: bool) -> None:
    async with running(broker_url) as first:
        topic = await first.policies("t", deduplication=True)
        producer = await first.producer(name="p")
        send(producer, *range(50))
        producer.send_entry(entries.batch_without_highest("p", [50, 51, 52]))
        await producer.has_receipts(51)
        if flushes:
            await first.broker.deduplication.flush([topic])
        send(producer, *range(53, 80))
        producer.send_entry(entries.chunk("p", 80, 0, 3))
        producer.send_entry(entries.chunk("p", 80, 1, 3))
        await producer.has_receipts(80)
    async with running(broker_url) as second:
        again = await second.producer(name="p")
        assert again.producer is not None
        assert again.producer.last_sequence_id == 79
        send(again, *range(40, 80))
        again.send_entry(entries.chunk("p", 80, 1, 3))
        again.send_entry(entries.chunk("p", 80, 2, 3))
        send(again, 81)
        await again.has_receipts(43)
        assert [each.entry_id for each in again.receipts] == [-1] * 41 + [80, 81]
    marks = [
        mark_of_entry(bytes(data), flags)
        for data, flags in rows(broker_url, "SELECT data, flags FROM vela_entry ORDER BY ledger_id, entry_id")
    ]
    assert len(marks) == len(set(marks)) == 82


async def test_the_state_is_stored_with_a_position_and_the_log_is_read_from_there(broker_url: str) -> None:
    async with running(broker_url, ledger_max_entries=10) as first:
        topic = await first.policies("t", deduplication=True)
        producer = await first.producer(name="p")
        for sequence_id in range(0, 35, 5):
            send(producer, *range(sequence_id, sequence_id + 5))
            await producer.has_receipts(sequence_id + 5)
        await first.broker.deduplication.flush([topic])
        through = one_row(broker_url, "SELECT ledger_id, entry_id FROM vela_deduplication")
        assert Position(*through) == topic.log.ledgers.last_position()
        assert one_row(broker_url, "SELECT producer_name, sequence_id FROM vela_deduplicated_producer") == (
            "p",
            34,
        )
    async with running(broker_url) as second:
        topic = await second.broker.topics.open(topic.name, create=False)
        assert topic.deduplication is not None
        assert topic.deduplication.through == Position(*through)


async def test_entries_that_the_stored_state_lacks_are_not_trimmed(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        topic = await run.policies("t", deduplication=True)
        deduplication = topic.deduplication
        assert deduplication is not None
        trap = run.proxy.trap("INSERT INTO vela_deduplication", Moment.HOLD_REQUEST)
        producer = await run.producer(name="p")
        await publish_ledgers(producer, 3)
        await trap.caught.wait()
        await look(run)
        assert len(kept(run)) == 3, "after a crash, a new owner learns from them what is stored"
        trap.release()
        last = topic.log.ledgers.last_position()
        await eventually(lambda: deduplication.stored_through == last, "the state is stored")
        await look(run)
        assert len(kept(run)) == 1


async def test_state_is_forgotten_if_the_policy_ends_while_the_topic_is_not_in_memory(
    broker_url: str,
) -> None:
    async with running(broker_url) as first:
        topic = await first.policies("t", deduplication=True)
        producer = await first.producer(name="p")
        send(producer, 0, 1)
        await producer.has_receipts(2)
        await first.broker.deduplication.flush([topic])
    rows(broker_url, "UPDATE vela_topic SET policies = '{}'")
    async with running(broker_url) as second:
        again = await second.producer(name="p")
        send(again, 0)
        await again.has_receipts(1)
        topic = await second.policies("t", deduplication=True)
        await second.broker.deduplication.flush([topic])
        assert rows(broker_url, "SELECT producer_name FROM vela_deduplicated_producer") == []
    async with running(broker_url) as third:
        again = await third.producer(name="p")
        send(again, 1)
        await again.has_receipts(1)
        assert stored(third) == [0, 1, 0, 1]


async def test_a_producer_not_seen_for_long_is_forgotten(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, deduplication_expiry_ms=1000) as run:
        topic = await run.policies("t", deduplication=True)
        gone, here = await run.producer(name="gone"), await run.producer(name="here")
        send(gone, 0)
        send(here, 0)
        await gone.has_receipts(1)
        await here.has_receipts(1)
        await run.broker.deduplication.flush([topic])
        gone.producer.detach()  # type: ignore[union-attr]
        clock.advance(1001)
        run.broker.deduplication.tidy(topic)
        await run.broker.deduplication.flush([topic])
        assert rows(broker_url, "SELECT producer_name FROM vela_deduplicated_producer") == [("here",)]
        assert topic.deduplication is not None
        assert await topic.deduplication.last_sequence_id("gone") == -1


async def test_deduplication_is_switched_on_and_off_while_messages_flow(run: BrokerRun) -> None:
    producer = await run.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    trap = run.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    send(producer, 1)
    await trap.caught.wait()
    topic = await run.policies("t", deduplication=True)
    send(producer, 1)
    await run.policies("t", deduplication=False)
    send(producer, 1)
    trap.release()
    await producer.has_receipts(4)
    assert positions(producer) == [(0, 0), (1, 1), (1, -1), (1, 2)]
    run.broker.deduplication.tidy(topic)
    assert topic.deduplication is None
    await eventually(
        lambda: not rows(run.database_url, "SELECT 1 FROM vela_deduplication"), "its rows are gone"
    )


@pytest.mark.parametrize("is_on_again", [False, True], ids=["off", "off and on"])
async def test_a_producer_that_opens_while_deduplication_is_switched_does_not_wait_for_ever(
    dedup: BrokerRun, is_on_again: bool
) -> None:
    first = await dedup.producer(name="p")
    trap = dedup.proxy.trap(APPEND, Moment.HOLD_REQUEST)
    send(first, 0)
    await trap.caught.wait()
    assert first.producer is not None
    first.producer.detach()
    opening = asyncio.create_task(dedup.producer(name="p"))
    await asyncio.sleep(0)
    topic = await dedup.policies("t", deduplication=False)
    dedup.broker.deduplication.tidy(topic)
    if is_on_again:
        await dedup.policies("t", deduplication=True)
    trap.release()
    again = await asyncio.wait_for(opening, 10)
    assert again.producer is not None
    assert again.producer.last_sequence_id == (0 if is_on_again else -1)
    send(again, 1)
    await again.has_receipts(1)
    assert stored(dedup) == [0, 1]


async def test_a_late_deletion_of_the_old_state_keeps_the_new_one(run: BrokerRun) -> None:
    topic = await run.policies("t", deduplication=True)
    trap = run.proxy.trap(FORGET, Moment.HOLD_REQUEST)
    await run.policies("t", deduplication=False)
    await trap.caught.wait()
    await run.policies("t", deduplication=True)
    producer = await run.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    await run.broker.deduplication.flush([topic])
    trap.release()
    await eventually(
        lambda: rows(run.database_url, "SELECT sequence_id FROM vela_deduplicated_producer") == [(0,)],
        "the new state to be stored",
    )


async def test_a_failed_flush_is_repeated(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    dedup.proxy.trap("INSERT INTO vela_deduplication", Moment.LOSE_REQUEST)
    await eventually(
        lambda: rows(dedup.database_url, "SELECT sequence_id FROM vela_deduplicated_producer") == [(0,)],
        "the next round stores it",
    )


async def test_messages_that_the_broker_itself_publishes_are_never_taken_for_repeats(
    dedup: BrokerRun,
) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0, 1)
    await producer.has_receipts(2)
    own = await InternalProducer.open(dedup.broker, "t", name="redrive")
    for _ in range(2):
        await own.send(entries.single("p", 0))
    send(producer, 1, 2)
    await producer.has_receipts(4)
    assert stored(dedup) == [0, 1, 0, 0, 2]


async def test_a_flush_that_comes_late_causes_no_message_to_be_stored_twice(broker_url: str) -> None:
    async with running(broker_url) as first:
        topic = await first.policies("t", deduplication=True)
        producer = await first.producer(name="p")
        send(producer, *range(10))
        await producer.has_receipts(10)
        trap = first.proxy.trap("INSERT INTO vela_deduplication", Moment.LATE_REQUEST)
        with pytest.raises(psycopg.OperationalError):
            await first.broker.deduplication.flush([topic])
        send(producer, *range(10, 20))
        await producer.has_receipts(20)
        await first.broker.deduplication.flush([topic])
        state = "SELECT sequence_id, entry_id FROM vela_deduplicated_producer JOIN vela_deduplication USING (topic_id)"
        assert one_row(broker_url, state) == (19, 19)
        trap.release()
        await trap.passed.wait()
        assert one_row(broker_url, state) == (9, 9)
    async with running(broker_url) as second:
        again = await second.producer(name="p")
        send(again, *range(21))
        await again.has_receipts(21)
        assert stored(second) == list(range(21))


async def test_a_stale_owner_stores_no_state(dedup: BrokerRun) -> None:
    producer = await dedup.producer(name="p")
    send(producer, 0)
    await producer.has_receipts(1)
    topic = dedup.topic()
    rows(dedup.database_url, "DELETE FROM vela_deduplicated_producer")
    rows(dedup.database_url, "UPDATE vela_topic_owner SET owner_epoch = owner_epoch + 1")
    assert topic.deduplication is not None
    topic.deduplication.expire(["p"], now_ms=0, expiry_ms=10**15)
    send(producer, 1)
    await eventually(lambda: topic.is_fenced, "the append is fenced")
    await dedup.broker.deduplication.flush([topic])
    assert rows(dedup.database_url, "SELECT 1 FROM vela_deduplicated_producer") == []
