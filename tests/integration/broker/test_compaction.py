"""What readers of a compacted topic get, and what compaction keeps of the log."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence

import psycopg
import pytest

from broker.core.errors import NotAllowed, PersistenceFailed, TopicFenced
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.storage.acts import acts as act_store
from broker.topics.compaction.compactor import CompactionBusy
from tests.integration.broker.topic_acting import partitioned
from tests.support.acting import apply, done, planned, refused
from tests.support.broker_harness import (
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    eventually,
    new_run,
    one_row,
    rows,
    running,
)
from tests.support.compacting import batch, compact, compacted_reader, put, values
from tests.support.entries import chunk, encrypted
from tests.support.lifetime import keeping, kept, look
from tests.support.postgres_proxy import Moment as PgMoment
from tests.support.storage_faults import Fault, Moment, StorageFaults
from vela.wire.entry import Compression

EXCLUSIVE, FAILOVER = SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER


@pytest.mark.row("I26")
async def test_readers_get_the_latest_message_of_each_key_and_then_the_log(run: BrokerRun) -> None:
    producer = await run.producer()
    positions = await put(producer, "a=1", "b=1", "=x", "a=2", "c=1", "b=", "c=2", "a=3")
    result = await compact(run)
    assert (result.kept.messages, result.removed_messages) == (2, 6)
    reader = await compacted_reader(run)
    await reader.has(2)
    assert (values(reader), reader.positions) == (["c=2", "a=3"], positions[6:])
    later = await put(producer, "a=4", "a=5")
    await reader.has(4)
    assert values(reader)[2:] == ["a=4", "a=5"]  # above the horizon, the reader gets every message
    assert reader.positions[2:] == later
    everything = await run.consumer(type_=EXCLUSIVE, permits=100)
    await everything.has(10)
    assert everything.positions == positions + later


async def test_a_second_compaction_continues_from_the_first(run: BrokerRun) -> None:
    producer = await run.producer()
    await put(producer, "a=1", "b=1", "c=1")
    await compact(run)
    await put(producer, "b=2", "c=", "d=1")
    result = await compact(run)
    assert (result.kept.messages, result.removed_messages) == (3, 3)
    reader = await compacted_reader(run)
    await reader.has(3)
    assert values(reader) == ["a=1", "b=2", "d=1"]
    again = await compact(run)
    assert (again.kept, again.removed_messages) == (result.kept, 0)
    assert one_row(run.database_url, "SELECT count(*) FROM vela_compacted_entry") == (3,)


@pytest.mark.row("I26")
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB])
async def test_in_a_batch_only_the_messages_that_stay_have_content(
    run: BrokerRun, compression: Compression
) -> None:
    producer = await run.producer()
    producer.send_entry(batch("a=1", "b=1", "=x", "c=1", compression=compression))
    producer.send_entry(batch("a=2", "c=2"))
    producer.send_entry(batch("d=1", "d=2"))
    await producer.has_receipts(3)
    await put(producer, "d=3")
    await compact(run)
    reader = await compacted_reader(run)
    await reader.has(3)
    assert values(reader) == ["b=1", "a=2", "c=2", "d=3"]
    first = reader.deliveries[0].entry
    assert first.messages == 4  # removed messages leave empty marks, so that batch indexes stay the same
    await compact(run)
    await put(producer, "b=2")
    await compact(run)
    again = await compacted_reader(run, subscription="again")
    await again.has(3)
    assert values(again) == ["a=2", "c=2", "d=3", "b=2"]


async def test_entries_that_cannot_be_read_stay_whole(run: BrokerRun) -> None:
    producer = await run.producer()
    unreadable = encrypted(batch("a=1", "b=1"))
    producer.send_entry(unreadable)
    await producer.has_receipts(1)
    await put(producer, "a=2")
    await compact(run)
    reader = await compacted_reader(run)
    await reader.has(2)
    assert bytes(reader.deliveries[0].entry.data) == unreadable


async def test_chunks_of_a_large_message_stay_together(run: BrokerRun) -> None:
    producer = await run.producer()
    await put(producer, "a=1")
    for number in range(3):
        producer.send_entry(chunk("p", 1, number, 3, partition_key="a"))
    await producer.has_receipts(4)
    await compact(run)
    reader = await compacted_reader(run)
    await reader.has(3)
    assert len(reader.positions) == 3
    await put(producer, "a=2")
    await compact(run)
    again = await compacted_reader(run, subscription="again")
    await again.has(1)
    assert values(again) == ["a=2"]


async def test_messages_without_a_key_stay_if_the_setting_says_so(broker_url: str) -> None:
    async with running(broker_url, compaction_retain_keyless=True) as run:
        producer = await run.producer()
        await put(producer, "a=1", "=x", "a=2", "=y")
        await compact(run)
        reader = await compacted_reader(run)
        await reader.has(3)
        assert values(reader) == ["=x", "a=2", "=y"]


# -- trimming ----------------------------------------------------------------------------------------------------


@pytest.mark.row("I26")
async def test_values_in_trimmed_ledgers_are_still_read(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        early = await put(producer, "a=1", "b=1", "c=1", "d=1")
        await put(producer, "a=2", "a=3", "a=4", "a=5", "b=2")
        await compact(run)
        await look(run)
        assert kept(run)[0].ledger_id > early[-1].ledger_id
        await put(producer, "e=1")
        reader = await compacted_reader(run)
        await reader.has(5)
        assert values(reader) == ["c=1", "d=1", "a=5", "b=2", "e=1"]
        assert reader.positions[:2] == early[2:]
        # A client can begin after the messages that it already has, wherever the log begins.
        after = await compacted_reader(
            run, start=Position(early[2].ledger_id, early[2].entry_id + 1), subscription="after"
        )
        await after.has(4)
        assert values(after) == values(reader)[1:]
        newest = await compacted_reader(run, start=LATEST, subscription="newest")
        await put(producer, "f=1")
        await newest.has(1)
        assert values(newest) == ["f=1"]


@pytest.mark.row("I27")
async def test_a_compacted_topic_keeps_what_is_not_compacted_yet(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        await put(producer, *(f"a={number}" for number in range(5)))
        await compact(run)
        first = await put(producer, *(f"b={number}" for number in range(9)))
        await look(run)
        assert kept(run)[0].ledger_id <= first[0].ledger_id
        await compact(run)
        await look(run)
        assert kept(run)[0].ledger_id > first[0].ledger_id
        reader = await compacted_reader(run)
        await reader.has(2)
        assert values(reader) == ["a=4", "b=8"]


async def test_a_slow_reader_continues_in_the_compacted_topic_when_its_ledgers_are_trimmed(
    broker_url: str,
) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        await put(producer, "a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1", "h=1", "i=1")
        await compact(run)
        reader = await compacted_reader(run, permits=2)
        await reader.has(2)
        await look(run)
        assert run.subscription(subscription="reader").cursor.backlog_messages == 1
        reader.flow(100)
        await reader.has(9)
        assert values(reader) == [f"{key}=1" for key in "abcdefghi"]


async def test_seeks_reach_trimmed_values(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        producer = await run.producer()
        early = await put(producer, "a=1", "b=1")
        clock.advance(1000)
        start_ms = clock.now_ms()
        await put(producer, "c=1", "d=1", "e=1")
        await compact(run)
        await look(run)
        reader = await compacted_reader(run)
        await reader.has(5)
        assert reader.consumer is not None
        await reader.consumer.seek_time(start_ms)
        again = await _again(run, 3)
        assert values(again) == ["c=1", "d=1", "e=1"]
        assert again.consumer is not None
        await again.consumer.seek_position(early[1], None)
        assert values(await _again(run, 4)) == ["b=1", "c=1", "d=1", "e=1"]


async def _again(run: BrokerRun, count: int) -> ConsumerProbe:
    """Attach again after a seek, which keeps a reader's cursor, and take this many entries."""
    probe = await compacted_reader(run, start=LATEST)
    await probe.has(count)
    return probe


async def compacted_and_trimmed(run: BrokerRun) -> list[Position]:
    """Compact two values of an earlier ledger, and trim the log until it is empty. Return their positions."""
    producer = await run.producer()
    positions = (await put(producer, "a=1", "b=1", "c=1", "c=2"))[:2]
    (last,) = await put(producer, "c=")
    assert last.ledger_id > positions[-1].ledger_id
    await compact(run)
    run.broker.segments.open_id += 1000  # as if the ledger's segment had been closed
    await look(run)
    run.broker.segments.open_id -= 1000
    assert not any(each.entries for each in run.topic().log.ledgers)
    return positions


async def test_resets_reach_trimmed_values_even_if_mark_delete_stays(broker_url: str) -> None:
    clock = ManualClock()
    async with keeping(broker_url, clock=clock) as run:
        _, second = await compacted_and_trimmed(run)

        async def after_reset(**place: object) -> ConsumerProbe:
            act_id, _ = await planned(run, "reset", place)
            assert (await apply(run, act_id))[0] == "applied"
            return await run.consumer(type_=EXCLUSIVE, permits=100, read_compacted=True)

        await run.consumer(type_=EXCLUSIVE, permits=100, read_compacted=True, earliest=False)
        mark_delete = run.subscription().cursor.mark_delete
        for place, found in (
            ({"to": "earliest"}, ["a=1", "b=1"]),
            ({"to": "id", "id": str(second)}, ["b=1"]),
            ({"to": "time", "time_ms": 1}, ["a=1", "b=1"]),
        ):
            probe = await after_reset(**place)
            await probe.has(len(found))
            assert values(probe) == found
            assert run.subscription().cursor.mark_delete == mark_delete
        probe = await after_reset(to="latest")
        await put(await run.producer(), "c=1")
        await probe.has(1)
        assert values(probe) == ["c=1"]


async def test_a_created_subscription_begins_at_trimmed_values(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        _, second = await compacted_and_trimmed(run)
        places: dict[str, tuple[dict[str, object], list[str]]] = {
            "first": ({"to": "earliest"}, ["a=1", "b=1"]),
            "second": ({"to": "id", "id": str(second)}, ["b=1"]),
            "early": ({"to": "time", "time_ms": 1}, ["a=1", "b=1"]),
            "like": ({"to": "like", "like": "second"}, ["b=1"]),
            "new": ({"to": "latest"}, []),
        }
        for name, (place, _) in places.items():
            _, result = await done(
                run, "create_subscription", {"name": name, "type": "Exclusive", **place}, subscription=None
            )
            assert result["words"][0].endswith("; 0 messages wait for it")  # The log is empty
            assert run.subscription(subscription=name).cursor.backlog_messages == 0
        later = await put(await run.producer(), "c=1")
        for name, (_, found) in places.items():
            reader = await run.consumer(subscription=name, type_=EXCLUSIVE, permits=100, read_compacted=True)
            await reader.has(len(found) + 1)
            assert values(reader) == [*found, "c=1"]
            assert reader.positions[-1:] == later
            assert run.subscription(subscription=name).cursor.backlog_messages == 1


async def test_a_seek_that_the_database_refuses_leaves_the_place_in_the_compacted_topic(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> bool:
        raise psycopg.DataError("no")

    async with keeping(broker_url) as run:
        await compacted_and_trimmed(run)
        consumer = await run.consumer(type_=EXCLUSIVE, permits=100, read_compacted=True, earliest=False)
        assert consumer.consumer is not None
        with monkeypatch.context() as patched:
            patched.setattr(act_store, "apply_to_cursor", refuse)
            with pytest.raises(PersistenceFailed):
                await consumer.consumer.seek_position(EARLIEST, None)
        again = await run.consumer(type_=EXCLUSIVE, permits=100, read_compacted=True)
        await put(await run.producer(), "c=1")
        await again.has(1)
        assert values(again) == ["c=1"]


@pytest.mark.parametrize("type_", [EXCLUSIVE, FAILOVER])
async def test_durable_subscriptions_begin_in_the_compacted_topic_and_do_not_get_acked_values_again(
    broker_url: str, type_: SubscriptionType
) -> None:
    async with keeping(broker_url, failover_delay_ms=0) as run:
        producer = await run.producer()
        await put(producer, "a=1", "b=1", "c=1", "a=2", "d=1")
        await compact(run)
        await look(run)
        consumer = await run.consumer(type_=type_, permits=100, read_compacted=True)
        await consumer.has(4)
        assert values(consumer) == ["b=1", "c=1", "a=2", "d=1"]
        assert consumer.consumer is not None
        consumer.consumer.detach()
        again = await run.consumer(type_=type_, permits=100, read_compacted=True)
        await again.has(4)
        assert await again.ack_durably(again.positions[-1], cumulative=True) is None
        assert run.subscription().cursor.backlog_messages == 0
        assert again.consumer is not None
        again.consumer.detach()
        late = await run.consumer(type_=type_, permits=100, read_compacted=True)
        await put(producer, "e=1")
        await late.has(1)
        assert values(late) == ["e=1"]


async def test_the_last_message_is_the_last_one_that_compaction_keeps(run: BrokerRun) -> None:
    producer = await run.producer()
    producer.send_entry(batch("a=1", "b=1", "c=1"))
    await producer.has_receipts(1)
    positions = await put(producer, "c=2", "c=")
    await compact(run)
    reader = await compacted_reader(run)
    plain = await run.consumer(type_=EXCLUSIVE)
    assert reader.consumer is not None
    assert plain.consumer is not None
    last = await reader.consumer.last_message()
    assert (last.position.entry_id, last.number_in_batch) == (0, 2)
    assert (await plain.consumer.last_message()).position == positions[-1]
    await put(producer, "a=", "b=")
    await compact(run)
    assert (await reader.consumer.last_message()).position == Position(-1, -1)


async def test_truncating_a_topic_empties_what_was_compacted(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        producer = await run.producer()
        positions = await put(producer, "a=1", "b=1", "c=1", "d=1", "e=1")
        await compact(run)
        await put(producer, "f=1", "g=1")
        topic = run.topic()
        await run.broker.compactor.empty(topic, positions[-1])
        reader = await compacted_reader(run)
        await reader.has(2)
        assert values(reader) == ["f=1", "g=1"]
        assert one_row(run.database_url, "SELECT count(*) FROM vela_compacted_entry") == (0,)
        await compact(run)
        again = await compacted_reader(run, subscription="again")
        await again.has(2)
        assert values(again) == ["f=1", "g=1"]


# -- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.row("I26")
async def test_a_compaction_that_ends_while_a_reader_reads_loses_nothing(run: BrokerRun) -> None:
    producer = await run.producer()
    await put(producer, "a=1", "b=1", "c=1", "d=1")
    await compact(run)
    reader = await compacted_reader(run, permits=2)
    await reader.has(2)
    await put(producer, "c=2", "a=2", "e=1")
    await compact(run)
    reader.flow(100)
    await reader.has(6)
    latest = dict(each.split("=") for each in values(reader))
    assert latest == {"a": "2", "b": "1", "c": "2", "d": "1", "e": "1"}


@pytest.mark.row("I27")
@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("step", ["begin", "read", "add", "publish", "sweep"])
async def test_a_compaction_that_stops_at_any_step_leaves_readers_a_whole_generation(
    broker_url: str, step: str, moment: Moment
) -> None:
    faults = StorageFaults()
    with faults.installed():
        async with running(broker_url) as run:
            producer = await run.producer()
            await put(producer, "a=1", "b=1", "b=2")
            await compact(run)
            await put(producer, "a=2", "c=1")
            faults.fail(f"compaction.{step}", moment)
            with pytest.raises(Fault):
                await compact(run)
        assert faults.hits
        faults.heal()
        async with running(broker_url) as run:
            await run.broker.topics.open_named("persistent://public/default/t")
            reader = await compacted_reader(run)
            await reader.has(3)
            latest = dict(each.split("=") for each in values(reader))
            assert latest == {"a": "2", "b": "2", "c": "1"}
            assert one_row(broker_url, "SELECT state <> 'RUNNING' FROM vela_compaction") == (True,)
            await compact(run)
            fresh = await compacted_reader(run, subscription="fresh")
            await fresh.has(3)
            assert values(fresh) == ["b=2", "a=2", "c=1"]
            assert one_row(broker_url, "SELECT count(*) FROM vela_compacted_entry") == (3,)


async def test_a_broker_that_dies_in_a_run_leaves_an_error_that_says_so(broker_url: str) -> None:
    run = await new_run(broker_url, compaction_rate_bytes=1)
    await run.start()
    await put(await run.producer(), "a=1", "a=2")
    task = asyncio.create_task(compact(run))
    await eventually(lambda: rows(broker_url, "SELECT state FROM vela_compaction") == [("RUNNING",)], "a run")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await run.crash()
    async with running(broker_url) as again:
        await again.producer()
        assert one_row(broker_url, "SELECT state, last_error FROM vela_compaction") == (
            "ERROR",
            "the broker stopped during the compaction",
        )
        await compact(again)
        assert one_row(broker_url, "SELECT state, last_error FROM vela_compaction") == ("SUCCESS", "")


async def test_one_topic_is_compacted_once_at_a_time(broker_url: str) -> None:
    async with running(broker_url, compaction_rate_bytes=1) as run:
        await put(await run.producer(), "a=1", "a=2")
        task = asyncio.create_task(compact(run))
        await eventually(lambda: run.topic().compacted.is_running, "the run to begin")
        with pytest.raises(CompactionBusy):
            await compact(run)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not run.topic().compacted.is_running


async def test_a_topic_with_too_many_keys_is_refused_and_says_why(broker_url: str) -> None:
    async with running(broker_url, compaction_max_keys=2) as run:
        await put(await run.producer(), "a=1", "b=1", "c=1")
        with pytest.raises(NotAllowed, match="VELA_COMPACTION_MAX_KEYS"):
            await compact(run)
        state, error = one_row(broker_url, "SELECT state, last_error FROM vela_compaction")
        assert state == "ERROR"
        assert "more than 2 keys" in error
        reader = await compacted_reader(run, start=EARLIEST)
        await reader.has(3)


# -- policy ------------------------------------------------------------------------------------------------------


async def test_a_topic_is_compacted_when_its_threshold_is_reached(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        topic = await run.policies(compaction_threshold_bytes=200)
        producer = await run.producer()
        await put(producer, "a=1", "a=2")
        assert run.broker.compactor.backlog_bytes(topic) < 200
        await run.broker.policy_rounds.run()
        assert topic.compacted.stored is None
        await put(producer, *(f"a={number}" for number in range(10)))
        clock.advance(59_999)
        await run.broker.policy_rounds.run()
        assert not topic.compacted.is_running
        assert topic.compacted.stored is None
        clock.advance(1)
        await run.broker.policy_rounds.run()
        await eventually(lambda: topic.compacted.horizon, "the compaction")
        assert run.broker.compactor.backlog_bytes(topic) == 0


async def test_after_a_failure_the_policy_waits_longer_each_time_and_says_until_when(broker_url: str) -> None:
    clock = ManualClock()
    retry = "SELECT failures, (extract(epoch FROM retry_at) * 1000)::bigint FROM vela_compaction"

    async def round_after(advance_ms: int) -> None:
        clock.advance(advance_ms)
        await run.broker.policy_rounds.run()
        await eventually(lambda: not run.topic().compacted.is_running, "the end of the run")

    async with running(broker_url, clock=clock, wheel_enabled=False, compaction_max_keys=2) as run:
        await run.policies(compaction_threshold_bytes=1)
        await put(await run.producer(), "a=1", "b=1", "c=1")
        began_ms = clock.now_ms()
        await round_after(0)
        await eventually(lambda: one_row(broker_url, retry)[0] == 1, "the failure")
        assert one_row(broker_url, retry) == (1, began_ms + 120_000)
        await round_after(60_000)
        assert one_row(broker_url, retry)[0] == 1
        await round_after(60_000)
        assert one_row(broker_url, retry) == (2, began_ms + 360_000)
        assert "pulsar_compaction_failed_count" in run.metrics_text()
    # A restart does not shorten the pause.
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        await run.producer()
        await round_after(60_000)
        assert one_row(broker_url, retry)[0] == 2
        await compact(run)  # an operator's run does not wait
        assert one_row(broker_url, retry) == (0, None)
        text = run.metrics_text()
        for name, value in (("succeed_count", 1), ("removed_event_count", 0), ("compacted_entries_count", 3)):
            assert re.search(
                rf'^pulsar_compaction_{name}{{[^}}]*topic="[^"]*/t"[^}}]*}} {value}$', text, re.MULTILINE
            )


# -- with a first pass by Spark ----------------------------------------------------------------------------------


def surveyed(run: BrokerRun, pairs: Sequence[str], positions: Sequence[Position], *, begin: Position) -> int:
    """Store what the job `compact` finds in these messages, and return the survey's number."""
    compaction = run.topic().compacted.stored
    (number,) = one_row(
        run.database_url,
        "INSERT INTO vela_compaction_survey (topic_id, write_id, state, generation, begin_ledger, begin_entry,"
        " horizon_ledger, horizon_entry, error, kept_messages, removed_messages)"
        " VALUES (%s, 'test', 'ready', %s, %s, %s, %s, %s, '', 0, 0) RETURNING id",
        run.topic().topic_id,
        0 if compaction is None else compaction.generation,
        *begin,
        *positions[-1],
    )
    latest = {pair.partition("=")[0]: (pair, at) for pair, at in zip(pairs, positions, strict=True)}
    latest.pop("", None)
    for key, (pair, at) in latest.items():
        rows(
            run.database_url,
            "INSERT INTO vela_compaction_key VALUES (%s, %s, %s, %s, 0, %s)",
            number,
            hashlib.md5(key.encode(), usedforsecurity=False).digest(),
            *at,
            pair.endswith("="),
        )
    return int(number)


async def ended(run: BrokerRun, number: int) -> tuple[str, str, int, int]:
    """Wait until the survey has ended, and return its outcome."""
    how = "SELECT state, error, kept_messages, removed_messages FROM vela_compaction_survey WHERE id = %s"
    await run.broker.policy_rounds.run()
    await eventually(lambda: one_row(run.database_url, how, number)[0] != "ready", "the end of the survey")
    state, error, kept_messages, removed_messages = one_row(run.database_url, how, number)
    return state, error, kept_messages, removed_messages


async def test_a_survey_compacts_as_the_broker_does_and_the_next_one_continues_from_it(
    broker_url: str,
) -> None:
    async with running(broker_url, compaction_max_keys=1, wheel_enabled=False) as run:
        producer = await run.producer()
        first = ["a=1", "b=1", "=x", "a=2", "c=1", "b=", "c=2", "a=3"]
        positions = await put(producer, *first)
        number = surveyed(run, first, positions, begin=Position(-1, -1))
        assert await ended(run, number) == ("done", "", 2, 6)
        horizon = positions[-1]
        second = ["d=1", "c=", "e=1", "d=2"]
        positions = await put(producer, *second)
        number = surveyed(run, second, positions, begin=horizon)
        assert await ended(run, number) == ("done", "", 3, 3)
        reader = await compacted_reader(run)
        await reader.has(3)
        assert values(reader) == ["a=3", "e=1", "d=2"]
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, "SELECT count(*) FROM vela_compaction_key") == (0,)


async def test_a_survey_keeps_the_chunks_that_an_earlier_compaction_kept(broker_url: str) -> None:
    async with running(broker_url, wheel_enabled=False) as run:
        producer = await run.producer()
        await put(producer, "a=1", "b=1")
        for number in range(3):
            producer.send_entry(chunk("p", 2, number, 3, partition_key="a"))
        producer.send_entry(chunk("p", 3, 0, 2, partition_key="b"))  # its last chunk may still come
        await producer.has_receipts(6)
        await compact(run)
        horizon = run.topic().log.ledgers.last_position()
        number = surveyed(run, ["c=1"], await put(producer, "c=1"), begin=horizon)
        assert await ended(run, number) == ("done", "", 6, 0)
        reader = await compacted_reader(run)
        await reader.has(6)


async def test_a_survey_that_does_not_fit_changes_nothing(broker_url: str) -> None:
    async with running(broker_url, wheel_enabled=False) as run:
        pairs = ["a=1", "b=1", "a=2"]
        positions = await put(await run.producer(), *pairs)
        # This survey has not seen the key b.
        number = surveyed(run, pairs[:1] * 3, positions, begin=Position(-1, -1))
        state, error, _, _ = await ended(run, number)
        assert (state, "Spark has not seen the key" in error) == ("refused", True)
        late = surveyed(run, pairs, positions, begin=Position(-1, -1))
        await compact(run)
        state, error, _, _ = await ended(run, late)
        assert (state, "run the job again" in error) == ("refused", True)
        reader = await compacted_reader(run)
        await reader.has(2)
        assert values(reader) == ["b=1", "a=2"]


async def test_a_survey_is_not_lost_when_its_topic_is_unloaded(broker_url: str) -> None:
    async with running(broker_url, wheel_enabled=False) as run:
        pairs = ["a=1", "a=2"]
        number = surveyed(run, pairs, await put(await run.producer(), *pairs), begin=Position(-1, -1))
        trap = run.proxy.trap("INSERT INTO vela_compacted_entry", PgMoment.HOLD_REQUEST)
        await run.broker.policy_rounds.run()
        await trap.caught.wait()
        topic = run.topic()
        topic.log.close()
        await run.broker.topics.open(topic.name, create=False)
        trap.release()
        await eventually(lambda: not topic.compacted.is_running, "the end of the first run")
        assert await ended(run, number) == ("done", "", 1, 1)


async def test_a_survey_is_given_up_when_the_last_run_of_its_write_id_has_ended(broker_url: str) -> None:
    async with running(broker_url, wheel_enabled=False) as run:
        pairs = ["a=1", "a=2"]
        number = surveyed(run, pairs, await put(await run.producer(), *pairs), begin=Position(-1, -1))
        rows(broker_url, "UPDATE vela_compaction_survey SET state = 'reading' WHERE id = %s", number)
        for state in ("failed", "running"):  # the second run continues the first one, with its write id
            rows(
                broker_url,
                "INSERT INTO vela_pipeline_run (job, subject, topic_name, options, write_id, pinned, state, stages,"
                " error, log, worker, who, reason, cancelled_by, ended_at) VALUES ('compact', 't', 't', '{}', 'test',"
                " '{}', %s, '[]', '', '', '', 'ada', '', '', CASE %s WHEN 'failed' THEN now() END)",
                state,
                state,
            )
        how = "SELECT state FROM vela_compaction_survey WHERE id = %s"
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, how, number) == ("reading",)
        rows(broker_url, "UPDATE vela_pipeline_run SET state = 'failed', ended_at = now()")
        await run.broker.policy_rounds.run()
        assert one_row(broker_url, how, number) == ("refused",)


# -- the act -----------------------------------------------------------------------------------------------------


async def test_the_act_keeps_and_removes_the_messages_that_its_plan_counted(run: BrokerRun) -> None:
    await put(await run.producer(), "a=1", "b=1", "a=2", "=x")
    act_id, plan = await planned(run, "compact", subscription=None)
    stay = {"kept_messages": 2, "removed_messages": 2}
    assert {name: plan[name] for name in stay} == stay
    assert plan["kept_bytes"] + plan["removed_bytes"] == run.topic().log.ledgers.total_bytes
    state, result, _ = await apply(run, act_id)
    assert state == "applied"
    assert {name: result[name] for name in stay} == stay
    assert run.topic().compacted.horizon == run.topic().log.ledgers.last_position()
    again, _ = await planned(run, "compact", subscription=None)
    assert (await apply(run, again))[1]["removed_messages"] == 0


async def test_each_partition_is_compacted_by_itself(run: BrokerRun) -> None:
    await partitioned(run, 2)
    for partition in range(2):
        await put(await run.producer(f"p-partition-{partition}"), "a=1", "a=2", "b=1")
    _, result = await done(run, "compact", subscription=None, topic="p")
    assert (result["kept_messages"], result["removed_messages"]) == (4, 2)
    reader = await compacted_reader(run, "p-partition-1")
    await reader.has(2)
    assert values(reader) == ["a=2", "b=1"]


async def test_a_plan_is_refused_while_the_topic_is_compacted(broker_url: str) -> None:
    async with running(broker_url, compaction_rate_bytes=1) as run:
        await put(await run.producer(), "a=1", "a=2")
        task = asyncio.create_task(compact(run))
        await eventually(lambda: run.topic().compacted.is_running, "the run to begin")
        assert "being compacted already" in await refused(run, "compact", subscription=None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_truncate_and_delete_remove_what_was_compacted(run: BrokerRun) -> None:
    await put(await run.producer(), "a=1", "b=1")
    await compact(run)
    await done(run, "truncate", subscription=None)
    reader = await compacted_reader(run)
    await put(await run.producer(), "c=1")
    await reader.has(1)
    assert values(reader) == ["c=1"]
    await compact(run)
    await done(run, "delete_topic", {"force": True}, subscription=None)
    assert one_row(
        run.database_url,
        "SELECT (SELECT count(*) FROM vela_compaction), (SELECT count(*) FROM vela_compacted_entry)",
    ) == (0, 0)


async def test_a_truncate_keeps_what_a_later_compaction_keeps(run: BrokerRun) -> None:
    producer = await run.producer()
    await put(producer, "a=1", "b=1")
    act_id, _ = await planned(run, "truncate", subscription=None)
    positions = await put(producer, "f=1", "g=1")
    await compact(run)
    state, _, error = await apply(run, act_id)
    assert (state, error.endswith("was compacted after this plan; plan again")) == ("refused", True)
    await run.broker.compactor.empty(run.topic(), Position(positions[0].ledger_id, positions[0].entry_id - 1))
    reader = await compacted_reader(run)
    await reader.has(4)
    assert values(reader) == ["a=1", "b=1", "f=1", "g=1"]
    await done(run, "truncate", subscription=None)
    await put(producer, "h=1")
    again = await compacted_reader(run, subscription="again")
    await again.has(1)
    assert values(again) == ["h=1"]


async def test_a_deleted_compaction_keeps_nothing_and_readers_get_the_log(broker_url: str) -> None:
    async with keeping(broker_url) as run:
        await put(await run.producer(), "a=1", "a=2", "a=3", "a=4", "b=1")
        assert "never compacted" in await refused(run, "delete_compaction", subscription=None)
        await compact(run)
        await put(await run.producer(), *(f"c={number}" for number in range(8)))
        reader = await compacted_reader(run, permits=1)
        await reader.has(1)
        _, result = await done(run, "delete_compaction", subscription=None)
        assert "2 messages are deleted from the compacted topic" in result["words"][0]
        reader.flow(100)
        await reader.has(10)
        assert values(reader) == ["a=4", "b=1", *(f"c={number}" for number in range(8))]
        await look(run)
        assert len(kept(run)) == 1  # nothing is kept for the next compaction
        assert one_row(
            broker_url,
            "SELECT (SELECT count(*) FROM vela_compaction), (SELECT count(*) FROM vela_compacted_entry)",
        ) == (0, 0)
        await compact(run)
        fresh = await compacted_reader(run, subscription="fresh")
        await fresh.has(1)
        assert values(fresh) == ["c=7"]


async def test_a_run_that_is_overtaken_by_a_truncate_publishes_nothing(broker_url: str) -> None:
    faults = StorageFaults()
    with faults.installed():
        async with running(broker_url, compaction_rate_bytes=600) as run:
            positions = await put(await run.producer(), *(f"a={number}" for number in range(4)), "b=1")
            task = asyncio.create_task(compact(run))
            await eventually(lambda: faults.calls["compaction.add"], "the copies")
            await run.broker.compactor.empty(run.topic(), positions[-1])
            with pytest.raises(CompactionBusy, match="emptied"):
                await task
            reader = await compacted_reader(run)
            await put(await run.producer(), "c=1")
            await reader.has(1)
            assert values(reader) == ["c=1"]
            assert one_row(broker_url, "SELECT state FROM vela_compaction") == ("SUCCESS",)


async def test_a_truncate_deletes_the_copies_of_a_run_that_begins_meanwhile(run: BrokerRun) -> None:
    producer = await run.producer()
    await put(producer, "a=1", "b=1")
    await compact(run)
    positions = await put(producer, "c=1")
    trap = run.proxy.trap("UPDATE vela_compaction c SET generation = $", PgMoment.HOLD_REQUEST)
    emptying = asyncio.create_task(run.broker.compactor.empty(run.topic(), positions[-1]))
    await trap.caught.wait()
    compacting = asyncio.create_task(compact(run))
    await asyncio.wait({compacting}, timeout=1)
    trap.release()
    await emptying
    await asyncio.gather(compacting, return_exceptions=True)
    await put(producer, "d=1")
    reader = await compacted_reader(run)
    await reader.has(1)
    assert values(reader) == ["d=1"]


async def test_the_run_of_a_deleted_topic_ends_and_lets_other_runs_begin(run: BrokerRun) -> None:
    producer = await run.producer()
    await put(producer, "a=1", "b=1")
    await compact(run)
    await put(producer, "c=1")
    trap = run.proxy.trap("FROM vela_compaction c LEFT JOIN LATERAL", PgMoment.HOLD_REQUEST)
    compacting = asyncio.create_task(compact(run))
    await trap.caught.wait()
    await run.broker.endings.delete(TopicName.parse("t"), force=True)
    trap.release()
    async with asyncio.timeout(30):
        with pytest.raises(TopicFenced):
            await compacting
    await put(await run.producer("other"), "a=1")
    assert (await compact(run, "other")).kept.messages == 1
