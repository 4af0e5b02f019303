"""Long-poll pulls against a real log: offsets, filters, parking, wake-ups, offsets of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from broker.core.entry import FLAG_BATCH, FLAG_MARKER, StoredEntry
from broker.core.errors import NotAllowed, SubscriptionBusy, SubscriptionNotFound, TopicNotFound
from broker.core.topic_name import TopicName
from broker.log.sends import SendRequest
from broker.pulls import reader as pull_reader
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk, PullStatus
from broker.storage.log import entries as log_store
from broker.storage.topics import topics as topic_store
from broker.topics.topic import Topic
from tests.support.broker_harness import BrokerRun, ManualClock, ProducerProbe, eventually, rows, running
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single

TOPIC = TopicName.parse("t")
PEER = "127.0.0.1"
Matches = Callable[[Mapping[str, str]], bool]


def ask(
    offset: int,
    *,
    queue: int = 0,
    most: int = 32,
    matches: Matches | None = None,
    suspend: bool = True,
    park_ms: int = 15_000,
) -> PullAsk:
    return PullAsk(
        topic=TOPIC,
        queue=queue,
        offset=offset,
        max_messages=most,
        matches=matches,
        may_suspend=suspend,
        suspend_timeout_ms=park_ms,
    )


def tagged(tag: str) -> Matches:
    return lambda properties: properties.get("TAGS") == tag


async def answered(run: BrokerRun, wanted: PullAsk) -> PullAnswer:
    found = await run.broker.pull(wanted)
    assert isinstance(found, PullAnswer)
    return found


async def parked(run: BrokerRun, wanted: PullAsk) -> ParkedPull:
    found = await run.broker.pull(wanted)
    assert isinstance(found, ParkedPull)
    assert not found.answer.done()
    return found


async def result(waiting: ParkedPull) -> PullAnswer:
    return await asyncio.wait_for(waiting.answer, 8)


def send(producer: ProducerProbe, data: bytes, *, messages: int = 1, flags: int = 0) -> None:
    """An entry as it is."""
    assert producer.producer is not None
    flags |= FLAG_BATCH if messages > 1 else 0
    producer.producer.send(SendRequest(0, 0, messages, flags, 0, None, data))


async def publish(producer: ProducerProbe, *payloads: bytes, tag: str = "") -> None:
    """Each alone."""
    before = len(producer.receipts)
    for payload in payloads:
        send(
            producer,
            encode_single(
                producer_name="p",
                sequence_id=0,
                publish_time_ms=1,
                payload=payload,
                properties={"TAGS": tag} if tag else {},
            ),
        )
    await producer.has_receipts(before + len(payloads))


async def publish_batch(producer: ProducerProbe, *payloads: bytes) -> None:
    """As one entry."""
    before = len(producer.receipts)
    data = encode_batch(
        [OutgoingMessage(payload=payload) for payload in payloads],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1,
    )
    send(producer, data, messages=len(payloads))
    await producer.has_receipts(before + 1)


def payloads(answer: PullAnswer) -> list[bytes]:
    return [each.message.payload for each in answer.messages]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


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
    async with running(broker_url) as run:  # nothing is in memory now: offsets are searched for
        for offset in range(60):
            answer = await answered(run, ask(offset, most=3))
            assert answer.status is PullStatus.FOUND
            assert (answer.min_offset, answer.max_offset) == (0, 60)
            assert payloads(answer) == expected[offset : answer.next_begin_offset]
            assert 1 <= answer.next_begin_offset - offset <= 3


async def test_an_offset_is_found_in_few_probes_whatever_the_mixture(
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
async def test_nothing_yet_is_answered_at_once_unless_it_may_be_parked(run: BrokerRun) -> None:
    await run.producer()
    assert (await answered(run, ask(0, suspend=False))).status is PullStatus.NOT_FOUND
    await parked(run, ask(0))
    assert len(run.broker.parked_pulls) == 1


@pytest.mark.row("S3.3")
@pytest.mark.parametrize(("long_polling", "park_ms"), [(True, 15_000), (False, 1_000)])
async def test_how_long_a_pull_is_parked(broker_url: str, long_polling: bool, park_ms: int) -> None:
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
        rows(run.database_url, "SELECT pg_notify('vela_tick', '{}')")  # what Celery's tick sends
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
        clock.advance(6_000)  # the timer's look at every queue lets each filter pass
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


@pytest.mark.row("S3.17")
async def test_nothing_arrives_between_looking_and_parking(run: BrokerRun) -> None:
    """Pulls at the end race with appends: whoever is parked is woken by the next one, none waits for a timer."""
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
async def test_where_an_offset_can_be(broker_url: str) -> None:
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


async def test_a_group_commits_its_offset_and_it_survives(broker_url: str) -> None:
    async with running(broker_url) as run:
        producer = await run.producer()
        await publish(producer, b"a", b"b")
        await publish_batch(producer, b"c", b"d", b"e")
        with pytest.raises(SubscriptionNotFound):
            await run.broker.committed_offset(TOPIC, 0, "g")
        for offset, kept in ((0, 0), (1, 1), (4, 4), (3, 4), (4, 4)):
            assert await run.broker.commit_offset(TOPIC, 0, "g", offset, PEER) == kept
            assert await run.broker.committed_offset(TOPIC, 0, "g") == kept
        assert run.subscription(subscription="g").cursor.backlog_messages == 1
    async with running(broker_url) as run:
        assert await run.broker.committed_offset(TOPIC, 0, "g") == 4
        with pytest.raises(NotAllowed, match="beyond the end"):
            await run.broker.commit_offset(TOPIC, 0, "g", 6, PEER)
        assert await run.broker.committed_offset(TOPIC, 0, "g") == 4
        assert await run.broker.commit_offset(TOPIC, 0, "g", 5, PEER) == 5
        assert run.subscription(subscription="g").cursor.backlog_messages == 0


async def test_a_group_with_consumers_attached_cannot_commit(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, b"a")
    await run.consumer(subscription="g")
    with pytest.raises(SubscriptionBusy, match="another group"):
        await run.broker.commit_offset(TOPIC, 0, "g", 1, PEER)
    assert run.subscription(subscription="g").cursor.backlog_messages == 1
    assert commit_acts(run) == []


def commit_acts(run: BrokerRun) -> list[tuple[object, ...]]:
    """(parameters, origin) of the commits in the act log."""
    assert {state for (state,) in rows(run.database_url, "SELECT state FROM vela_act")} <= {"applied"}
    return rows(
        run.database_url,
        "SELECT parameters, origin FROM vela_act WHERE kind = 'commit' AND topic_name = %s"
        " AND subscription_name = 'g' AND finished_at IS NOT NULL ORDER BY id",
        TOPIC.full,
    )


async def test_commits_are_in_the_act_log_as_one_act_a_day_for_each_address(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 9))

    async def commit(offset: int, peer: str = PEER) -> None:
        assert await run.broker.commit_offset(TOPIC, 0, "g", offset, peer) == offset

    await commit(0)
    made = ({"from_offset": None, "offset": 0}, "client 127.0.0.1")
    assert commit_acts(run) == [made]
    for offset in range(1, 5):
        await commit(offset)
        assert commit_acts(run) == [({"from_offset": None, "offset": offset}, "client 127.0.0.1")]
    await commit(4)
    await commit(6, "192.0.2.9")
    other = ({"from_offset": 4, "offset": 6}, "client 192.0.2.9")
    assert commit_acts(run)[1:] == [other]
    rows(run.database_url, "UPDATE vela_act SET created_at = now() - interval '25 hours'")
    await commit(9)
    assert commit_acts(run)[1:] == [other, ({"from_offset": 6, "offset": 9}, "client 127.0.0.1")]


async def test_a_commit_leaves_plans_of_acts_on_its_cursor_valid(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 9))
    await run.broker.commit_offset(TOPIC, 0, "g", 2, PEER)
    version = run.subscription(subscription="g").cursor.version
    await run.broker.commit_offset(TOPIC, 0, "g", 3, PEER)
    assert run.subscription(subscription="g").cursor.version == version


async def test_a_commit_that_does_not_move_the_offset_writes_no_act(run: BrokerRun) -> None:
    producer = await run.producer()
    await publish(producer, *numbers(0, 9))
    await run.broker.commit_offset(TOPIC, 0, "g", 5, PEER)
    before = rows(run.database_url, "SELECT * FROM vela_act")
    for offset in (5, 4, 0):
        assert await run.broker.commit_offset(TOPIC, 0, "g", offset, PEER) == 5
    assert rows(run.database_url, "SELECT * FROM vela_act") == before


async def test_a_topic_that_leaves_answers_its_waiters(run: BrokerRun) -> None:
    await run.producer()
    waiting = await parked(run, ask(0))
    run.topic().log.close()
    await eventually(lambda: waiting.answer.done(), "an answer")
    assert (await result(waiting)).next_begin_offset == 0
