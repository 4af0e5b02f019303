"""A message that an operator sends to the dead letters: copied first, then acknowledged, never lost."""

from __future__ import annotations

from typing import Any

import pytest

from broker.acts.kinds.cursors import dead_letter
from broker.core.position import Position
from tests.integration.broker.acting import partitioned
from tests.support.acting import answered, apply, ask, done, planned, refused
from tests.support.broker_harness import BrokerRun, ConsumerProbe, one_row, rows, running
from tests.support.postgres_proxy import Moment
from vela.wire.entry import Message, OutgoingMessage, decode_messages, encode_batch, encode_single

KIND = "send_to_dead_letters"
DLQ = "t-s-DLQ"
FULL = f"persistent://public/default/{DLQ}"


def entry(number: int, **properties: str) -> bytes:
    return encode_single(
        producer_name="p",
        sequence_id=number,
        publish_time_ms=1,
        payload=b"%d" % number,
        properties=properties,
        key=f"k{number}",
        event_time_ms=7,
    )


async def published(run: BrokerRun, *entries: bytes, topic: str = "t") -> list[Position]:
    producer = await run.producer(topic)
    for each in entries:
        producer.send_entry(each)
    await producer.has_receipts(len(entries))
    return [Position(each.ledger_id, each.entry_id) for each in producer.receipts]


def messages_of(consumer: ConsumerProbe) -> list[Message]:
    return [
        message
        for each in consumer.deliveries
        for message in decode_messages(each.entry.data, max_message_bytes=10**6)
    ]


def cursor(run: BrokerRun, topic: str = "t") -> Any:
    return run.subscription(topic).cursor


async def test_the_letter_of_a_message_without_a_value_has_none(run: BrokerRun) -> None:
    await run.consumer()
    dead = await run.consumer(DLQ, "dead", permits=10)
    (position,) = await published(
        run, encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"", null_value=True)
    )
    await done(run, KIND, {"id": str(position)})
    await dead.has(1)
    assert [each.null_value for each in messages_of(dead)] == [True]


async def test_a_letter_equals_that_of_a_client_and_the_message_is_acknowledged(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    dead = await run.consumer(DLQ, "dead", permits=10)
    positions = await published(run, *(entry(n, colour="red") for n in range(3)))
    await consumer.has(3)
    act_id, plan = await planned(run, KIND, {"id": str(positions[1])})
    assert plan["words"] == [f"1 message is copied to {FULL}, then acknowledged here"]
    assert (plan["letter_topic"], plan["letter_messages"], plan["skipped_messages"]) == (FULL, 1, 1)
    assert not dead.deliveries
    assert cursor(run).backlog_messages == 3
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    await dead.has(1)
    (letter,) = messages_of(dead)
    assert (letter.payload, letter.key, letter.event_time_ms) == (b"1", "k1", 7)
    origin = f"{positions[1]}:-1"
    assert letter.properties == {
        "colour": "red",
        "REAL_TOPIC": "persistent://public/default/t",
        "ORIGIN_MESSAGE_ID": origin,
        "ORIGIN_MESSAGE_IDY_TIME": origin,
        "REAL_SUBSCRIPTION": "s",
    }
    assert (result["letter_topic"], result["letter_messages"], result["skipped_messages"]) == (FULL, 1, 1)
    assert result["letter_ids"] == [str(dead.positions[0])]
    assert cursor(run).is_acked(positions[1])
    assert cursor(run).backlog_messages == 2
    assert consumer.consumer is not None
    assert consumer.consumer.is_open


async def test_a_message_of_a_partitioned_topic_becomes_a_letter_too(run: BrokerRun) -> None:
    await partitioned(run, 2)
    for partition in range(2):
        await run.consumer(f"p-partition-{partition}")
    dead = await run.consumer("p-s-DLQ", "dead", permits=10)
    (position,) = await published(run, entry(0), topic="p-partition-1")
    _, result = await done(run, KIND, {"id": f"{position}:1"}, topic="p")
    assert cursor(run, "p-partition-1").backlog_messages == 0
    await dead.has(1)
    assert [each.payload for each in messages_of(dead)] == [b"0"]
    (part,) = result["partitions"]
    assert part["letter_topic"] == "persistent://public/default/p-s-DLQ"
    assert part["letter_messages"] == 1


async def test_an_undo_unacks_the_message_and_says_that_the_letter_stays(run: BrokerRun) -> None:
    dead = await run.consumer(DLQ, "dead", permits=10)
    await run.consumer()
    (position,) = await published(run, entry(0))
    act_id, _ = await done(run, KIND, {"id": str(position)})
    undo, plan = await planned(run, "undo", undo_of=act_id)
    assert f"the letter in {FULL} stays there" in plan["notes"]
    await apply(run, undo)
    again = await run.consumer(permits=10)
    await again.has(1)
    assert again.payloads == [b"0"]
    assert len(dead.deliveries) == 1


async def test_one_message_of_a_batch_or_the_whole_batch_becomes_letters(run: BrokerRun) -> None:
    dead = await run.consumer(DLQ, "dead", permits=10)
    await run.consumer()
    batch = encode_batch(
        [OutgoingMessage(payload=b"%d" % n) for n in range(4)],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1,
    )
    (position,) = await published(run, batch)
    await done(run, KIND, {"id": f"{position}:-1:2"})
    await dead.has(1)
    assert cursor(run).remaining_of(position) == 0b1011
    _, plan = await planned(run, KIND, {"id": str(position)})
    assert plan["letter_messages"] == 3
    assert "already acknowledged" in await refused(run, KIND, {"id": f"{position}:-1:2"})
    _, result = await done(run, KIND, {"id": str(position)})
    assert result["letter_messages"] == 3
    await dead.has(4)
    letters = messages_of(dead)
    assert [each.payload for each in letters] == [b"2", b"0", b"1", b"3"]
    assert letters[1].properties["ORIGIN_MESSAGE_ID"] == f"{position}:-1:0"
    assert cursor(run).backlog_messages == 0


@pytest.mark.parametrize(
    ("given", "consumer_names", "exists", "expected"),
    [
        ({}, None, "", DLQ),
        ({}, None, "s-DLQ", "s-DLQ"),
        ({}, "persistent://public/default/wrong", "s-DLQ", "wrong"),
        ({"to_topic": "chosen"}, "persistent://public/default/wrong", "", "chosen"),
    ],
)
async def test_the_dead_letter_topic_is_the_one_that_clients_use(
    run: BrokerRun, given: dict[str, str], consumer_names: str | None, exists: str, expected: str
) -> None:
    """The first of these: the act's topic, a connected consumer's topic, the old default if it exists, the default."""
    if exists:
        await run.producer(exists)
    await run.consumer(dead_letter_topic=consumer_names)
    (position,) = await published(run, entry(0))
    _, plan = await planned(run, KIND, {"id": str(position), **given})
    assert plan["letter_topic"] == f"persistent://public/default/{expected}"
    assert ("does not exist and is created" in " ".join(plan["notes"])) is (expected != exists)
    assert ("has no subscription" in " ".join(plan["notes"])) is (expected == exists)


@pytest.mark.parametrize(("keep", "readers"), [({}, ["letters"]), ({"keep": False}, [])])
async def test_a_dead_letter_topic_without_a_subscription_gets_one_unless_the_act_says_no(
    run: BrokerRun, keep: dict[str, bool], readers: list[str]
) -> None:
    await run.consumer()
    positions = await published(run, entry(0), entry(1))
    for position in positions:
        _, plan = await planned(run, KIND, {"id": str(position), **keep})
        is_promised = "the subscription letters is created" in " ".join(plan["notes"])
        assert is_promised is (bool(readers) and position == positions[0])
        await done(run, KIND, {"id": str(position), **keep})
    topic = await run.broker.topics.open_named(f"persistent://public/default/{DLQ}")
    assert list(topic.subscriptions) == readers
    assert [each.cursor.backlog_messages for each in topic.subscriptions.values()] == [2] * len(readers)


async def test_a_message_that_cannot_become_a_letter_is_refused_and_nothing_changes(run: BrokerRun) -> None:
    await run.consumer()
    ended = await run.producer("ended")
    await ended.publish(1)
    positions = await published(run, entry(0), entry(1)[:-1] + b"x")
    here = str(positions[0])
    assert "cannot be read" in await refused(run, KIND, {"id": str(positions[1])})
    assert "the topic of the message itself" in await refused(run, KIND, {"id": here, "to_topic": "t"})
    lossy = "non-persistent://public/default/x"
    assert "keeps no messages" in await refused(run, KIND, {"id": here, "to_topic": lossy})
    assert "to_topic" in await refused(run, KIND, {"id": here, "to_topic": "a//b"})
    assert "write it as ledger:entry" in await refused(run, KIND, {"id": "nonsense"})
    assert "id is missing" in await refused(run, KIND, {})
    await done(run, "terminate", topic="ended", subscription=None)
    assert "terminated" in await refused(run, KIND, {"id": here, "to_topic": "ended"})
    rows(run.database_url, """UPDATE vela_namespace SET policies = '{"auto_create_topics": false}'""")
    assert "create it first" in await refused(run, KIND, {"id": here})
    assert cursor(run).backlog_messages == 2


async def test_a_message_acknowledged_after_the_plan_gets_no_letter(run: BrokerRun) -> None:
    dead = await run.consumer(DLQ, "dead", permits=10)
    consumer = await run.consumer(permits=10)
    (position,) = await published(run, entry(0))
    await consumer.has(1)
    act_id, _ = await planned(run, KIND, {"id": str(position)})
    assert await consumer.ack_durably(position) is None
    state, _, error = await apply(run, act_id)
    assert (state, "already acknowledged" in error) == ("refused", True)
    assert not dead.deliveries
    assert not run.topic(DLQ).log.ledgers.total_messages


async def test_a_dead_letter_topic_that_does_not_answer_keeps_the_message(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter, "_PUBLISH_S", 0.1)
    await run.consumer(DLQ, "dead")
    consumer = await run.consumer()
    (position,) = await published(run, entry(0))
    act_id, _ = await planned(run, KIND, {"id": str(position)})
    trap = run.proxy.trap('INSERT INTO "vela_entry_', Moment.HOLD_REQUEST)
    state, _, error = await apply(run, act_id)
    trap.release()
    assert (state, "did not confirm the letter" in error) == ("refused", True)
    assert cursor(run).backlog_messages == 1
    consumer.flow(10)
    await consumer.has(1)  # the subscription delivers again


async def test_a_broker_killed_between_letter_and_ack_loses_nothing(broker_url: str) -> None:
    """The next broker writes the letter again, and the message is acknowledged once."""
    async with running(broker_url) as run:
        await run.consumer(DLQ, "dead")
        await run.consumer()
        (position, _) = await published(run, entry(0), entry(1))
        act_id, _ = await planned(run, KIND, {"id": str(position)})
        trap = run.proxy.trap("UPDATE vela_act SET state = 'applied'", Moment.HOLD_REQUEST)
        rows(
            broker_url,
            "UPDATE vela_act SET state = 'apply_requested', requested_at = now() WHERE id = %s",
            act_id,
        )
        rows(broker_url, "SELECT pg_notify('vela_act', '')")
        await trap.caught.wait()
        await run.crash()
    assert one_row(broker_url, "SELECT state FROM vela_act WHERE id = %s", act_id) == ("apply_requested",)
    async with running(broker_url) as run:
        state, _, result, error = await answered(run, act_id)
        assert state == "applied", error
        dead = await run.consumer(DLQ, "dead", permits=10)
        await dead.has(2)
        assert {each.payload for each in messages_of(dead)} == {b"0"}
        left = await run.consumer(permits=10)
        await left.has(1)
        assert left.payloads == [b"1"]
        assert result["letter_messages"] == 1


async def test_hostile_properties_are_copied_unchanged(run: BrokerRun) -> None:
    """A message that already names an origin keeps it, as with Pulsar's clients."""
    dead = await run.consumer(DLQ, "dead", permits=10)
    await run.consumer()
    hostile = {
        "REAL_TOPIC": "<b>\x00\u202e",
        "ORIGIN_MESSAGE_ID": "1:2; drop",
        "REAL_SUBSCRIPTION": "x" * 5000,
    }
    (position,) = await published(run, entry(0, **hostile))
    await done(run, KIND, {"id": str(position)})
    await dead.has(1)
    (letter,) = messages_of(dead)
    assert letter.properties["REAL_TOPIC"] == hostile["REAL_TOPIC"]
    assert letter.properties["ORIGIN_MESSAGE_ID"] == hostile["ORIGIN_MESSAGE_ID"]
    assert letter.properties["REAL_SUBSCRIPTION"] == "s"


async def test_a_plan_can_be_made_before_any_consumer_has_connected(run: BrokerRun) -> None:
    """No consumer has connected since the broker started."""
    await run.consumer()
    (position,) = await published(run, entry(0))
    assert await ask(run, KIND, {"id": str(position)})
