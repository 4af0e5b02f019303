"""Long-poll pulls against a real log: offsets, filters, parking, wake-ups."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.entry import FLAG_MARKER, StoredEntry
from broker.core.errors import ServiceNotReady, TopicNotFound
from broker.pulls import reader as pull_reader
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk, PullStatus
from broker.storage.log import entries as log_store
from broker.storage.topics import topics as topic_store
from broker.topics.topic import Topic
from tests.integration.broker.pulls import (
    TOPIC,
    Matches,
    ask,
    numbers,
    parked,
    payloads,
    publish,
    publish_batch,
    result,
    send,
)
from tests.support.broker_harness import BrokerRun, ManualClock, rows, running
from vela.wire.entry import encode_single


def tagged(tag: str) -> Matches:
    return lambda properties: properties.get("TAGS") == tag


async def answered(run: BrokerRun, wanted: PullAsk) -> PullAnswer:
    found = await run.broker.pull(wanted)
    assert isinstance(found, PullAnswer)
    return found


@pytest.mark.row("S3.1")
async def test_the_next_offset_is_where_the_answer_ended(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 100))
    seen: list[bytes] = []
    offset = pulls = 0
    while offset < 100:
        answer = await answered(run, ask(offset))
        assert answer.status is PullStatus.FOUND
        assert [each.offset for each in answer.messages] == list(range(offset, answer.next_begin_offset))
        seen += payloads(answer)
        offset, pulls = answer.next_begin_offset, pulls + 1
    assert (seen, pulls) == (numbers(0, 100), 4)


@pytest.mark.row("I25")
async def test_offsets_are_dense_over_batches_ledgers_and_restarts(broker_url: str) -> None:
    expected = numbers(0, 60)
    async with running(broker_url, ledger_max_entries=4) as run:
        producer = await run.producer()
        at = 0
        for size in (1, 7, 1, 1, 20, 3, 2, 1, 1, 1, 1, 1, 20):
            part = expected[at : at + size]
            await (publish(producer, *part) if size == 1 else publish_batch(producer, *part))
            at += size
        assert at == 60
        assert len(run.topic().log.ledgers) > 2
    async with running(broker_url) as run:  # memory is empty, so offsets are looked up in PostgreSQL
        for offset in range(60):
            answer = await answered(run, ask(offset, most=3))
            assert answer.status is PullStatus.FOUND
            assert (answer.min_offset, answer.max_offset) == (0, 60)
            assert payloads(answer) == expected[offset : answer.next_begin_offset]
            assert 1 <= answer.next_begin_offset - offset <= 3


async def test_an_offset_is_found_in_few_probes_however_batches_and_single_messages_are_mixed(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        for size in (*[1] * 60, 500, *[1] * 60):
            await (publish(producer, b"x") if size == 1 else publish_batch(producer, *[b"y"] * size))
    probes = 0
    original = log_store.messages_through

    async def counted(*args: object, **kwargs: object) -> int | None:
        nonlocal probes
        probes += 1
        return await original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(log_store, "messages_through", counted)
    async with running(broker_url) as run:
        for offset in (0, 30, 59, 60, 300, 559, 560, 590, 619):
            assert (await answered(run, ask(offset, most=1))).messages[0].offset == offset
    assert probes <= 9 * 12


@pytest.mark.row("S3.2")
async def test_a_pull_that_finds_nothing_is_answered_at_once_unless_it_may_be_parked(run: BrokerRun) -> None:
    await run.producer()
    assert (await answered(run, ask(0, suspend=False))).status is PullStatus.NOT_FOUND
    await parked(run, ask(0))
    assert len(run.broker.parked_pulls) == 1


@pytest.mark.row("S3.3")
@pytest.mark.parametrize(("long_polling", "park_ms"), [(True, 15_000), (False, 1_000)])
async def test_without_long_polling_a_pull_is_parked_for_one_second(
    broker_url: str, long_polling: bool, park_ms: int
) -> None:
    async with running(broker_url, long_polling=long_polling) as run:
        await run.producer()
        assert (await parked(run, ask(0, park_ms=15_000))).park_ms == park_ms


@pytest.mark.row("S3.11")
async def test_a_parked_pull_wakes_for_its_tag_only(run: BrokerRun) -> None:
    producer = await run.producer()
    waiting = await parked(run, ask(0, matches=tagged("A")))
    await publish(producer, b"other", tag="B")
    assert not waiting.answer.done()
    await publish(producer, b"mine", tag="A")
    answer = await result(waiting)
    assert payloads(answer) == [b"mine"]
    assert answer.next_begin_offset == 2


@pytest.mark.row("S3.12")
async def test_beat_alone_answers_a_pull_whose_time_is_over(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        await run.producer()
        waiting = await parked(run, ask(0, park_ms=2_000))
        clock.advance(1_999)
        assert run.broker.deadlines.run_due() == 0
        clock.advance(1)
        rows(run.database_url, "SELECT pg_notify('vela_tick', '{}')")  # as Celery's tick does
        answer = await result(waiting)
        assert (answer.status, answer.next_begin_offset) == (PullStatus.NOT_FOUND, 0)


@pytest.mark.row("S3.12")
async def test_the_wheel_alone_answers_a_pull_whose_time_is_over(run: BrokerRun) -> None:
    await run.producer()
    answer = await result(await parked(run, ask(0, park_ms=30)))
    assert answer.status is PullStatus.NOT_FOUND


@pytest.mark.row("S3.16")
async def test_ten_waiters_are_woken_by_one_message_once_each(run: BrokerRun) -> None:
    producer = await run.producer()
    waiting = [await parked(run, ask(0)) for _ in range(10)]
    await publish(producer, b"x")
    assert [payloads(await result(each)) for each in waiting] == [[b"x"]] * 10
    assert len(run.broker.parked_pulls) == 0
    assert run.broker.parked_pulls.wake_ups == 10


@pytest.mark.row("S3.14")
async def test_a_woken_pull_is_not_parked_a_second_time(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock, wheel_enabled=False) as run:
        producer = await run.producer()
        waiting = await parked(run, ask(0, matches=tagged("A"), park_ms=60_000))
        await publish(producer, b"other", tag="B")
        clock.advance(6_000)  # now the timer checks every queue, with the filter of each pull
        assert run.broker.deadlines.run_due() == 1
        answer = await result(waiting)
        assert (answer.status, answer.next_begin_offset) == (PullStatus.NONE_MATCHED, 1)
        assert len(run.broker.parked_pulls) == 0


@pytest.mark.row("S3.15")
async def test_an_error_while_waking_answers_and_is_not_parked_again(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await run.producer()
    waiting, other = await parked(run, ask(0)), await parked(run, ask(0, most=1))
    original = pull_reader.PullReader.answer

    def broken(
        self: pull_reader.PullReader, topic: Topic, wanted: PullAsk, entries: list[StoredEntry]
    ) -> PullAnswer:
        if wanted is waiting.ask:
            raise RuntimeError("injected")
        return original(self, topic, wanted, entries)

    monkeypatch.setattr(pull_reader.PullReader, "answer", broken)
    await publish(producer, b"x")
    assert (await result(waiting)).status is PullStatus.NOT_FOUND
    assert payloads(await result(other)) == [b"x"]
    assert len(run.broker.parked_pulls) == 0


async def test_an_offset_that_is_trimmed_while_it_is_looked_for_can_be_asked_for_again(
    run: BrokerRun,
) -> None:
    await run.producer()
    reader = pull_reader.PullReader(max_message_bytes=1 << 20)
    with pytest.raises(ServiceNotReady, match="ask again"):
        await reader.place(run.topic(), 0)  # no ledger has it any more


@pytest.mark.row("S3.17")
async def test_nothing_arrives_between_looking_and_parking(run: BrokerRun) -> None:
    """Pulls at the log's end race with appends. The next append wakes every parked pull, and none waits for a timer."""
    producer = await run.producer()
    offset = 0
    for number in range(50):
        found, _ = await asyncio.gather(run.broker.pull(ask(offset)), publish(producer, b"%d" % number))
        answer = await asyncio.wait_for(found.answer, 2) if isinstance(found, ParkedPull) else found
        assert payloads(answer) == [b"%d" % number]
        offset = answer.next_begin_offset


@pytest.mark.row("S3.18")
async def test_a_crash_while_parked_loses_nothing(broker_url: str) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        await publish(producer, b"a")
        await parked(run, ask(1))
    async with running(broker_url) as run:
        producer = await run.producer()
        await publish(producer, b"b")
        assert payloads(await answered(run, ask(1))) == [b"b"]


@pytest.mark.row("S3.20")
async def test_an_offset_at_the_end_beyond_it_or_before_the_log_has_its_own_status(broker_url: str) -> None:
    async with running(broker_url, ledger_max_entries=1) as run:
        producer = await run.producer()
        assert (await answered(run, ask(0, suspend=False))).status is PullStatus.NOT_FOUND
        await publish(producer, b"a")
        await publish(producer, b"b")
        beyond = await answered(run, ask(3))
        assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_MOVED, 2)
        none = await answered(run, ask(1, matches=tagged("A")))
        assert (none.status, none.next_begin_offset) == (PullStatus.NONE_MATCHED, 2)
        run.topic().log.ledgers.drop_first(1)
        before = await answered(run, ask(0))
        assert (before.status, before.next_begin_offset) == (PullStatus.OFFSET_MOVED, 1)


@pytest.mark.row("S3.21")
async def test_a_stop_answers_everybody(broker_url: str) -> None:
    async with running(broker_url) as run:
        await run.producer()
        waiting = [await parked(run, ask(0)) for _ in range(100)]
        await run.stop()
        assert {(await result(each)).status for each in waiting} == {PullStatus.NOT_FOUND}
        assert len(run.broker.parked_pulls) == 0


async def test_a_peer_that_left_is_forgotten(run: BrokerRun) -> None:
    producer = await run.producer()
    waiting = await parked(run, ask(0))
    run.broker.forget_pull(waiting)
    run.broker.forget_pull(waiting)
    assert len(run.broker.parked_pulls) == 0
    await publish(producer, b"x")
    assert not waiting.answer.done()


async def test_unreadable_messages_are_passed_over_and_counted(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, b"a")
    good = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"rotten")
    send(producer, good[:-1] + b"?")
    marker = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"marker")
    send(producer, marker, flags=FLAG_MARKER)
    await publish(producer, b"b")
    answer = await answered(run, ask(0))
    assert [(each.offset, each.message.payload) for each in answer.messages] == [(0, b"a"), (3, b"b")]
    assert answer.unreadable_messages == 1


async def test_a_topic_with_a_partitions_name_is_no_queue_of_one_without_partitions(run: BrokerRun) -> None:
    await publish(await run.producer(), b"own")
    await publish(await run.producer("t-partition-0"), b"other")
    await run.producer("t-partition-1")
    assert payloads(await answered(run, ask(0))) == [b"own"]
    with pytest.raises(TopicNotFound, match="there is no queue 1"):
        await run.broker.pull(ask(0, queue=1))


async def test_queues_are_partitions(run: BrokerRun) -> None:
    async with run.broker.pool.use() as connection:
        await topic_store.create_topic(connection, TOPIC, partitions=2, policies={})
    producer = await run.producer("t-partition-1")
    waiting = await parked(run, ask(0, queue=1))
    await parked(run, ask(0, queue=0))
    await publish(producer, b"x")
    answer = await result(waiting)
    assert (payloads(answer), answer.partition) == ([b"x"], 1)
    assert len(run.broker.parked_pulls) == 1
    with pytest.raises(TopicNotFound, match="2 queues"):
        await run.broker.pull(ask(0, queue=2))
