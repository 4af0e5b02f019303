"""Redrive: dead letters return to their topics. No letter is lost; at worst, a letter is published twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker.acts.kinds.subscriptions import redrive
from broker.acts.kinds.subscriptions.redrive_scan import REDRIVES
from broker.core.hash_slots import slot_of_key
from broker.core.schemas.schema import SchemaDefinition, SchemaType, version_bytes
from broker.core.topic_name import TopicName
from tests.support.acting import answered, apply, ask, done, planned, refused
from tests.support.broker_harness import BrokerRun, ConsumerProbe, eventually, one_row, rows, running
from tests.support.postgres_proxy import Moment
from vela.wire.entry import Message, OutgoingMessage, decode_messages, encode_batch, encode_single

DLQ = "orders-s-DLQ"
HERE: dict[str, Any] = {"topic": DLQ, "subscription": "dead"}


def letter(number: int, *, origin: str = "orders", key: str | None = None, **properties: str) -> bytes:
    """Return an entry as a client's dead-letter producer makes it."""
    return encode_single(
        producer_name="p",
        sequence_id=number,
        publish_time_ms=1,
        payload=b"%d" % number,
        properties={"REAL_TOPIC": origin, "RECONSUMETIMES": "4", "number": str(number), **properties},
        key=key,
        event_time_ms=7,
    )


def letter_with_schema(version: bytes) -> bytes:
    return encode_single(
        producer_name="p",
        sequence_id=1,
        publish_time_ms=1,
        payload=b"{}",
        properties={"REAL_TOPIC": "orders"},
        schema_version=version,
    )


async def dead(run: BrokerRun, *entries: bytes) -> ConsumerProbe:
    """Publish dead letters, and return a consumer of the topic to which a redrive returns them."""
    holder = await run.consumer(DLQ, "dead")
    back = await run.consumer("orders", "s", permits=1000)
    producer = await run.producer(DLQ)
    for entry in entries:
        producer.send_entry(entry)
    await producer.has_receipts(len(entries))
    assert holder.consumer is not None
    holder.consumer.detach()
    return back


def messages_of(consumer: ConsumerProbe) -> list[Message]:
    return [
        message
        for each in consumer.deliveries
        for message in decode_messages(each.entry.data, max_message_bytes=10**6)
    ]


def left(run: BrokerRun) -> int:
    return run.subscription(DLQ, "dead").cursor.backlog_messages


@pytest.mark.row("I16")
async def test_dead_letters_go_back_whole_and_are_acknowledged_afterwards(run: BrokerRun) -> None:
    back = await dead(run, *(letter(n, key=f"k{n}") for n in range(250)))
    act_id, plan = await planned(run, "redrive", **HERE)
    assert plan["words"] == ["250 messages are published again and acknowledged in the dead-letter topic"]
    assert plan["targets"] == {"persistent://public/default/orders": 250}
    assert "cannot be undone" in plan["notes"][0]
    assert not back.deliveries
    state, result, error = await apply(run, act_id)
    assert (state, result["redriven_messages"]) == ("applied", 250), error
    await back.has(250)
    messages = messages_of(back)
    assert [each.payload for each in messages] == [b"%d" % n for n in range(250)]
    assert messages[3].properties == {"REAL_TOPIC": "orders", "number": "3", REDRIVES: "1"}
    assert (messages[3].key, messages[3].event_time_ms) == ("k3", 7)
    assert left(run) == 0


async def test_letters_get_the_version_of_their_schema_in_their_topic(run: BrokerRun) -> None:
    old, new = (
        SchemaDefinition(type=SchemaType.JSON, data=json.dumps(definition).encode(), name="R")
        for definition in (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}],
            },
        )
    )
    for topic, schemas in (("orders", (old, new)), (DLQ, (new,))):
        for schema in schemas:
            await run.producer(topic, schema=schema)
    back = await dead(
        run, *(letter_with_schema(each) for each in (version_bytes(0), b"", version_bytes(9), b"?"))
    )
    await done(run, "redrive", **HERE)
    await back.has(4)
    assert [each.schema_version for each in messages_of(back)] == [version_bytes(1), b"", b"", b""]


async def test_letters_without_a_value_get_none(run: BrokerRun) -> None:
    properties = {"REAL_TOPIC": "orders"}
    single = encode_single(
        producer_name="p",
        sequence_id=1,
        publish_time_ms=1,
        payload=b"",
        properties=properties,
        null_value=True,
    )
    batch = encode_batch(
        [
            OutgoingMessage(payload=b"", properties=properties, null_value=True),
            OutgoingMessage(payload=b"", properties=properties),
        ],
        producer_name="p",
        sequence_id=2,
        publish_time_ms=1,
    )
    back = await dead(run, single, batch)
    await done(run, "redrive", **HERE)
    await back.has(3)
    assert [each.null_value for each in messages_of(back)] == [True, True, False]


async def test_the_receipt_of_a_redrive_counts_acks_since_its_plan_and_adds_up(
    run: BrokerRun,
) -> None:
    back = await dead(run, *(letter(n) for n in range(6)))
    act_id, plan = await planned(run, "redrive", **HERE)
    assert plan["redriven_messages"] == 6
    holder = await run.consumer(DLQ, "dead", permits=3)
    await holder.has(3)
    assert await holder.ack_durably(*holder.positions[:2]) is None
    _, result, _ = await apply(run, act_id)
    assert (result["redriven_messages"], result["acked_meanwhile_messages"]) == (3, 2)
    assert result["in_flight_messages"] == 1
    await back.has(3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"key": "a"}, [0, 2]),
        ({"property_name": "why"}, [1, 2]),
        ({"property_name": "why", "property_value": "late"}, [2]),
        ({"most": 1}, [0]),
        ({"before_ms": 1}, []),
        ({"after_ms": 1}, [0, 1, 2]),
        ({"rate": 1000}, [0, 1, 2]),
    ],
)
async def test_only_matching_letters_are_redriven(
    run: BrokerRun, given: dict[str, Any], expected: list[int]
) -> None:
    back = await dead(run, letter(0, key="a"), letter(1, why="bad"), letter(2, key="a", why="late"))
    _, result = await done(run, "redrive", given, **HERE)
    assert result["redriven_messages"] == len(expected)
    await back.has(len(expected))
    assert [int(each.payload) for each in messages_of(back)] == expected
    assert left(run) == 3 - len(expected)


async def test_one_letter_is_redriven_by_its_id(run: BrokerRun) -> None:
    back = await dead(run, *(letter(n) for n in range(3)))
    ledger_id, entry_id = run.subscription(DLQ, "dead").cursor.read_from()
    second = f"{ledger_id}:{entry_id + 1}"
    _, plan = await planned(run, "redrive", {"id": second}, **HERE)
    assert plan["redriven_messages"] == 1
    await done(run, "redrive", {"id": second}, **HERE)
    await back.has(1)
    assert [each.payload for each in messages_of(back)] == [b"1"]
    assert left(run) == 2
    _, plan = await planned(run, "redrive", {"id": second}, **HERE)
    assert plan["redriven_messages"] == 0, "it is acknowledged"
    for wrong, why in ((f"{ledger_id}:99", "nothing to redrive"), ("x", "write it as ledger:entry")):
        assert why in await refused(run, "redrive", {"id": wrong}, **HERE)
    assert left(run) == 2


async def test_letters_that_cannot_be_redriven_stay_and_are_counted(run: BrokerRun) -> None:
    back = await dead(
        run,
        letter(0, **{REDRIVES: "3"}),
        letter(1, origin=DLQ),
        letter(2, origin="bad//name"),
        letter(3)[:-1] + b"x",
        letter(4),
    )
    holder = await run.consumer(DLQ, "dead", permits=1)
    await holder.has(1)  # a consumer holds the first letter for now
    _, plan = await planned(run, "redrive", {"to_topic": "orders"}, **HERE)
    assert plan["words"][0].startswith("3 messages")
    _, result = await done(run, "redrive", **HERE)
    assert result["redriven_messages"] == 1
    words = " ".join(result["words"])
    for each in (
        "1 message stays: delivered to a consumer",
        "the target is this topic itself",
        "REAL_TOPIC",
        "corrupt, encrypted, in chunks",
    ):
        assert each in words
    await back.has(1)
    assert left(run) == 4
    assert holder.consumer is not None
    holder.consumer.detach()
    _, plan = await planned(run, "redrive", **HERE)
    assert "1 message stays: redriven too often already" in plan["words"]


async def test_a_letter_that_the_plan_did_not_read_opens_no_other_namespace(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any producer can set REAL_TOPIC, and the operator's rights were checked only for the namespaces in the plan."""
    monkeypatch.setattr(redrive, "_PLAN_ENTRIES", 1)
    elsewhere = "persistent://other/place/pears"
    back = await dead(run, letter(0), letter(1, origin=elsewhere), letter(2))
    act_id, plan = await planned(run, "redrive", **HERE)
    assert list(plan["targets"]) == ["persistent://public/default/orders"]
    state, result, error = await apply(run, act_id)
    assert (state, result["redriven_messages"]) == ("applied", 2), error
    assert (
        "1 message stays: the target is in a namespace that the plan did not name, so plan again to redrive them"
        in result["words"]
    )
    await back.has(2)
    assert left(run) == 1
    _, again = await planned(run, "redrive", **HERE)
    assert list(again["targets"]) == [elsewhere]


async def test_members_of_a_batch_are_redriven_one_by_one(run: BrokerRun) -> None:
    batch = encode_batch(
        [
            OutgoingMessage(
                payload=b"%d" % n,
                properties={"REAL_TOPIC": "orders", "odd": str(n % 2)},
                key="AP8=" if n == 3 else f"k{n}",
                key_b64=n == 3,
            )
            for n in range(4)
        ],
        producer_name="p",
        sequence_id=0,
        publish_time_ms=1,
    )
    holder = await run.consumer(DLQ, "dead")
    back = await run.consumer("orders", "s", permits=100)
    producer = await run.producer(DLQ)
    producer.send_entry(batch)
    await producer.has_receipts(1)
    assert holder.consumer is not None
    holder.consumer.detach()
    position = run.subscription(DLQ, "dead").cursor.read_from()
    await done(run, "redrive", {"id": f"{position}:-1:1"}, **HERE)
    await done(run, "redrive", {"property_name": "odd", "property_value": "1"}, **HERE)
    await back.has(2)
    sent = messages_of(back)
    assert [(each.payload, each.key, each.key_b64) for each in sent] == [
        (b"1", "k1", False),
        (b"3", "AP8=", True),
    ]
    hashes = [each.entry.key_hash for each in back.deliveries]
    assert hashes == [slot_of_key(b"k1"), slot_of_key(b"\x00\xff")], "each goes by its own key"
    cursor = run.subscription(DLQ, "dead").cursor
    assert cursor.remaining_of(cursor.read_from()) == 0b0101


async def test_a_missing_topic_stops_a_redrive_which_says_how_far_it_got(run: BrokerRun) -> None:
    await dead(run, *(letter(n) for n in range(150)), letter(150, origin="nowhere"))
    act_id, _ = await planned(run, "redrive", **HERE)
    state, _, error = await apply(run, act_id)
    assert (state, "cannot publish to persistent://public/default/nowhere" in error) == ("failed", True)
    assert one_row(
        run.database_url, "SELECT progress->>'redriven_messages' FROM vela_act WHERE id = %s", act_id
    ) == ("100",)
    assert left(run) == 51


async def test_a_plan_names_the_topics_that_do_not_exist(run: BrokerRun) -> None:
    await dead(run, letter(0), letter(1, origin="nowhere"))
    assert "nowhere does not exist" in await refused(run, "redrive", {"to_topic": "nowhere"}, **HERE)
    _, plan = await planned(run, "redrive", **HERE)
    assert [note for note in plan["notes"] if "does not exist" in note] == [
        (
            "persistent://public/default/nowhere does not exist, and a redrive does not create topics: it fails"
            " at the first message for that topic"
        )
    ]


@pytest.mark.row("I16")
async def test_a_broker_that_starts_continues_a_redrive(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker dies after publishing a piece and before acknowledging it. Only this piece is published twice."""
    monkeypatch.setattr(redrive, "PIECE_MESSAGES", 10)
    async with running(broker_url) as run:
        await dead(run, *(letter(n) for n in range(50)))
        act_id, _ = await planned(run, "redrive", **HERE)
        trap = run.proxy.trap("UPDATE vela_cursor c SET mark_delete_ledger = u.", Moment.HOLD_REQUEST)
        rows(broker_url, "UPDATE vela_act SET state = 'apply_requested' WHERE id = %s", act_id)
        rows(broker_url, "SELECT pg_notify('vela_act', '')")
        await trap.caught.wait()
        assert one_row(broker_url, "SELECT state FROM vela_act WHERE id = %s", act_id) == ("applying",)
    async with running(broker_url) as run:
        back = await run.consumer("orders", "s", permits=1000)
        state, _, _, error = await answered(run, act_id)
        assert state == "applied", error
        await eventually(lambda: left(run) == 0, "everything to be acknowledged")
        await back.has(50)
        numbers = [int(each.payload) for each in messages_of(back)]
        assert set(numbers) == set(range(50))
        assert len(numbers) <= 60


async def test_a_receipt_after_a_restart_has_the_same_sum_by_topic(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "PIECE_MESSAGES", 10)
    async with running(broker_url) as run:
        await run.consumer("returns", "s")
        await dead(run, *(letter(n, origin="returns" if n < 5 else "orders") for n in range(50)))
        act_id, _ = await planned(run, "redrive", **HERE)
        trap = run.proxy.trap("UPDATE vela_act SET progress", Moment.HOLD_ANSWER)
        rows(broker_url, "UPDATE vela_act SET state = 'apply_requested' WHERE id = %s", act_id)
        rows(broker_url, "SELECT pg_notify('vela_act', '')")
        await trap.caught.wait()
    assert one_row(
        broker_url, "SELECT progress->'redriven_messages' FROM vela_act WHERE id = %s", act_id
    ) == (10,)
    async with running(broker_url) as run:
        state, _, result, error = await answered(run, act_id)
        assert state == "applied", error
    assert (result["redriven_messages"], result["targets"]) == (
        50,
        {"persistent://public/default/returns": 5, "persistent://public/default/orders": 45},
    )


async def test_a_redrive_that_has_sent_all_it_may_sends_no_more_after_a_restart(broker_url: str) -> None:
    async with running(broker_url) as run:
        await dead(run, letter(0), letter(1))
        act_id, _ = await planned(run, "redrive", {"most": 1}, **HERE)
    progress = '{"redriven_messages": 1, "targets": {"persistent://public/default/orders": 1}}'
    rows(broker_url, "UPDATE vela_act SET state = 'applying', progress = %s WHERE id = %s", progress, act_id)
    async with running(broker_url) as run:
        state, _, result, error = await answered(run, act_id)
        assert (state, result["redriven_messages"]) == ("applied", 1), error
        assert left(run) == 2


async def test_other_acts_are_answered_meanwhile(run: BrokerRun) -> None:
    await dead(run, *(letter(n) for n in range(30)))
    slow, _ = await planned(run, "redrive", {"rate": 10}, **HERE)
    rows(run.database_url, "UPDATE vela_act SET state = 'apply_requested' WHERE id = %s", slow)
    _, plan = await planned(run, "clear", topic="orders", subscription="s")
    assert plan["skipped_messages"] <= 30
    assert one_row(run.database_url, "SELECT state FROM vela_act WHERE id = %s", slow)[0] in (
        "applying",
        "apply_requested",
    )


async def test_bad_parameters_are_refused_and_change_nothing(run: BrokerRun) -> None:
    await dead(run, letter(0))
    for given in ({"property_value": "x"}, {"to_topic": "a//b"}, {"most": 0}, {"rate": -1}):
        assert await refused(run, "redrive", given, **HERE)
    assert await ask(run, "redrive", **HERE)
    assert left(run) == 1


@pytest.mark.parametrize("moment", [Moment.LOSE_REQUEST, Moment.LOSE_ANSWER], ids=lambda each: each.name)
async def test_a_connection_lost_at_the_beginning_does_not_end_a_redrive(
    run: BrokerRun, moment: Moment
) -> None:
    back = await dead(run, letter(1))
    act_id, _ = await planned(run, "redrive", **HERE)
    run.proxy.trap("SET state = 'applying'", moment)
    state, result, error = await apply(run, act_id)
    assert (state, error) == ("applied", "")
    assert result["redriven_messages"] == 1
    await back.has(1)


async def test_after_an_unload_a_redrive_leaves_out_what_consumers_have_or_acked(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "PIECE_MESSAGES", 1)
    back = await dead(run, *(letter(n) for n in range(4)))
    act_id, _ = await planned(run, "redrive", **HERE)
    publish, is_publishing, may_publish = redrive._Work._publish, asyncio.Event(), asyncio.Event()

    async def held_back(work: Any, *given: Any) -> None:
        is_publishing.set()
        await may_publish.wait()
        await publish(work, *given)

    monkeypatch.setattr(redrive._Work, "_publish", held_back)
    applying = asyncio.create_task(apply(run, act_id))
    await is_publishing.wait()  # it has read all letters, and publishes the first
    await run.broker.endings.unload([TopicName.parse(DLQ)])
    holder = await run.consumer(DLQ, "dead", permits=3)
    await holder.has(3)
    assert await holder.ack_durably(holder.positions[1]) is None
    may_publish.set()
    state, result, error = await applying
    assert (state, result["redriven_messages"], result["in_flight_messages"]) == ("applied", 2, 1), error
    await back.has(2)
    assert [each.payload for each in messages_of(back)] == [b"0", b"3"]
    assert left(run) == 1


async def test_a_second_redrive_leaves_out_what_the_first_is_publishing(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = await dead(run, letter(1), letter(2), letter(3))
    first, _ = await planned(run, "redrive", **HERE)
    second, _ = await planned(run, "redrive", **HERE)
    publish, is_publishing, may_publish = redrive._Work._publish, asyncio.Event(), asyncio.Event()

    async def held_back(work: Any, *given: Any) -> None:
        if work._context.act.act_id == first:
            is_publishing.set()
            await may_publish.wait()
        await publish(work, *given)

    monkeypatch.setattr(redrive._Work, "_publish", held_back)
    applying = asyncio.create_task(apply(run, first))
    await is_publishing.wait()
    state, result, _ = await apply(run, second)
    assert (state, result["redriven_messages"]) == ("applied", 0)
    assert result["words"][1:] == ["3 messages stay: another redrive is publishing them"]
    may_publish.set()
    state, result, _ = await applying
    assert (state, result["redriven_messages"], left(run)) == ("applied", 3, 0)
    await back.has(3)
    assert len(back.deliveries) == 3
    assert not run.subscription(DLQ, "dead").redriving
