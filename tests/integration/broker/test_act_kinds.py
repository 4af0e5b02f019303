"""What each kind of act does to a running broker, and that what makes no sense changes nothing (semantics 2.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.errors import BrokerError, SubscriptionBusy, SubscriptionNotFound
from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from tests.support import entries
from tests.support.acting import answered, apply, done, planned, refused
from tests.support.broker_harness import (
    BrokerRun,
    ConsumerProbe,
    ManualClock,
    eventually,
    one_row,
    rows,
    running,
)

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


async def ten(run: BrokerRun, *, messages: int = 1) -> list[Position]:
    """Ten entries, and a subscription at their beginning without a consumer."""
    consumer = await run.consumer()
    producer = await run.producer()
    positions = await producer.publish(10, messages=messages)
    assert consumer.consumer is not None
    consumer.consumer.detach()
    return positions


async def rest_of(run: BrokerRun, subscription: str = "s") -> ConsumerProbe:
    """A consumer that has got all that waits."""
    consumer = await run.consumer(subscription=subscription, permits=1000)
    waiting = run.subscription(subscription=subscription).cursor.backlog_entries
    if waiting:
        await consumer.has(waiting)
    return consumer


# -- places


@pytest.mark.parametrize(
    ("place", "first"),
    [
        ({"to": "shift", "messages": 3}, 3),
        ({"to": "id", "id": "{4}"}, 4),
        ({"to": "id", "id": "{4}", "inclusive": False}, 5),
        ({"to": "id", "id": "{9}", "inclusive": False}, 10),
        ({"to": "like", "like": "other"}, 6),
        ({"to": "bookmark", "bookmark": "before"}, 6),
    ],
)
async def test_a_reset_goes_there(run: BrokerRun, place: dict[str, Any], first: int) -> None:
    positions = await ten(run)
    await done(
        run, "create_subscription", {"name": "other", "to": "id", "id": str(positions[6])}, subscription=None
    )
    await done(run, "create_bookmark", {"name": "before", "to": "like", "like": "other"}, subscription=None)
    place = {name: _filled(value, positions) for name, value in place.items()}
    _, result = await done(run, "reset", place)
    assert result["skipped_messages"] == first
    assert (await rest_of(run)).positions == positions[first:]


@pytest.mark.parametrize(
    ("messages", "notes"),
    [
        (6, []),
        (7, ["only 6 messages are after the mark-delete position, so the cursor goes to the end"]),
        (2**62, ["only 6 messages are after the mark-delete position, so the cursor goes to the end"]),
        (-4, []),
        (
            -5,
            [
                "only 4 messages are kept before the mark-delete position, so the cursor goes to the first of them"
            ],
        ),
    ],
)
async def test_a_shift_beyond_the_log_says_so_in_its_plan(
    run: BrokerRun, messages: int, notes: list[str]
) -> None:
    positions = await ten(run)
    await done(run, "reset", {"to": "id", "id": str(positions[4])})
    act_id, plan = await planned(run, "reset", {"to": "shift", "messages": messages})
    assert plan["notes"] == notes
    await apply(run, act_id)
    assert (await rest_of(run)).positions == (positions[10:] if messages > 0 else positions)


async def test_a_shift_from_before_a_batch_of_which_some_is_acked_says_what_counts(run: BrokerRun) -> None:
    positions = await ten(run, messages=4)
    await done(run, "skip", {"messages": 2})
    counts_from = (
        f"it counts from the mark-delete position, {positions[0].ledger_id}:-1, so the acknowledged messages"
        f" of the next batch, {positions[0]}, count too"
    )
    _, plan = await planned(run, "reset", {"to": "shift", "messages": 2})
    assert (plan["replayed_messages"], plan["skipped_messages"], plan["notes"]) == (0, 0, [counts_from])
    _, plan = await planned(run, "reset", {"to": "shift", "messages": -2})
    assert plan["replayed_messages"] == 2
    assert plan["notes"] == [
        "no message is kept before the mark-delete position, so the cursor goes to the first one kept",
        counts_from,
    ]


async def test_a_message_of_a_deleted_topic_is_no_trimmed_one_of_a_topic_that_has_its_first(
    run: BrokerRun,
) -> None:
    (gone,) = await (await run.producer("gone")).publish(1)
    await ten(run)
    assert "gone" in await refused(run, "reset", {"to": "id", "id": str(gone)})
    await done(run, "delete_topic", {"force": True}, topic="gone", subscription=None)
    assert f"has no ledger {gone.ledger_id}" in await refused(run, "reset", {"to": "id", "id": str(gone)})


async def test_a_receipt_names_no_batch_where_a_whole_entry_was_skipped(run: BrokerRun) -> None:
    positions = await ten(run)
    _, result = await done(run, "skip_one", {"id": str(positions[4])})
    assert result["inside"] is None
    assert result["skipped_messages"] == 1


async def test_a_reset_goes_inside_a_batch(run: BrokerRun) -> None:
    positions = await ten(run, messages=4)
    act_id, plan = await planned(run, "reset", {"to": "id", "id": f"{positions[2]}:-1:1"})
    _, result, _ = await apply(run, act_id)
    assert plan["target"]["inside"] == result["inside"]
    assert result["inside"] == {"position": str(positions[2]), "remaining": "e"}
    assert (await rest_of(run)).deliveries[0].remaining == 0b1110
    _, result = await done(run, "reset", {"to": "id", "id": f"{positions[2]}:-1:1", "inclusive": False})
    assert (await rest_of(run)).deliveries[0].remaining == 0b1100
    await done(run, "reset", {"to": "id", "id": f"{positions[2]}:-1:3", "inclusive": False})
    assert (await rest_of(run)).positions == positions[3:]
    assert run.subscription().cursor.backlog_messages == 28


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", "write it as ledger:entry"),
        ("1:2:3:4:5", "write it as ledger:entry"),
        ("-1:-1", "cannot be negative"),
        ("{0}:-1:4", "has 1 message, so there is no index 4"),
        ("{0}:2:0", "is of partition 2"),
        (
            "{0}:2",
            "is of partition 2; persistent://public/default/t is not partitioned: one message of a batch",
        ),
        ("{other}", "is of persistent://public/default/other, not of"),
        ("999999:0", "has no ledger 999999"),
    ],
)
async def test_an_id_that_is_none_of_the_topics_is_refused(run: BrokerRun, text: str, complaint: str) -> None:
    (other,) = await (await run.producer("other")).publish(1)
    positions = await ten(run)
    text = _filled(text.replace("{other}", str(other)), positions)
    before = one_row(run.database_url, "SELECT mark_delete_entry, version FROM vela_cursor")
    for kind, parameters in (
        ("reset", {"to": "id", "id": text}),
        ("skip_one", {"id": text}),
        ("expire", {"to": "id", "id": text}),
    ):
        assert complaint in await refused(run, kind, parameters), kind
    assert one_row(run.database_url, "SELECT mark_delete_entry, version FROM vela_cursor") == before


async def test_a_place_after_the_end(run: BrokerRun) -> None:
    positions = await ten(run)
    after = f"{positions[-1].ledger_id}:500"
    _, plan = await planned(run, "reset", {"to": "id", "id": after})
    assert "after the last message" in plan["notes"][0]
    assert "is after the last message" in await refused(run, "expire", {"to": "id", "id": after})
    assert "nothing to skip" in await refused(run, "skip_one", {"id": after})
    assert "no subscription 'nope'" in await refused(run, "reset", {"to": "like", "like": "nope"})
    assert "no bookmark 'nope'" in await refused(run, "reset", {"to": "bookmark", "bookmark": "nope"})


async def test_what_is_not_there_has_a_code_of_its_own(run: BrokerRun) -> None:
    positions = await ten(run)
    after = f"{positions[-1].ledger_id}:500"
    for kind, parameters in (
        ("skip_one", {"id": after}),
        ("skip_one", {"id": f"{positions[0]}:-1:4"}),
        ("expire", {"to": "id", "id": after}),
        ("reset", {"to": "id", "id": "999999:0"}),
        ("reset", {"to": "like", "like": "nope"}),
        ("reset", {"to": "bookmark", "bookmark": "nope"}),
        ("disconnect", {"consumer": "nope"}),
    ):
        await refused(run, kind, parameters)
    await refused(run, "delete_bookmark", {"name": "nope"}, subscription=None)
    await refused(run, "skip_one", {"id": "nonsense"})
    *there, nonsense = rows(run.database_url, "SELECT error_code FROM vela_act ORDER BY id")
    assert (set(there), len(there), nonsense) == ({("NothingToActOn",)}, 8, ("MetadataError",))


# -- passing over


async def test_one_message_is_skipped_and_its_undo_brings_it_back(run: BrokerRun) -> None:
    positions = await ten(run)
    poison, _ = await done(run, "skip_one", {"id": str(positions[4])})
    consumer = await rest_of(run)
    assert consumer.positions == positions[:4] + positions[5:]
    assert "already acknowledged" in await refused(run, "skip_one", {"id": str(positions[4])})
    consumer.ack(positions[7])
    await done(run, "undo", undo_of=poison)
    assert (await rest_of(run)).positions == positions[:7] + positions[8:]


async def test_one_message_of_a_batch_is_skipped(run: BrokerRun) -> None:
    positions = await ten(run, messages=3)
    act, _ = await done(run, "skip_one", {"id": f"{positions[0]}:-1:1"})
    assert (await rest_of(run)).deliveries[0].remaining == 0b101
    await done(run, "undo", undo_of=act)
    assert (await rest_of(run)).deliveries[0].remaining is None
    assert run.subscription().cursor.backlog_messages == 30


async def test_a_message_that_was_skipped_and_acked_since_stays_acked(run: BrokerRun) -> None:
    positions = await ten(run)
    consumer = await rest_of(run)
    act, _ = await done(run, "skip_one", {"id": str(positions[4])})
    assert await consumer.ack_durably(positions[4]) is None
    await done(run, "undo", undo_of=act)
    assert (await rest_of(run)).positions == positions[:4] + positions[5:]


async def test_what_is_older_expires_in_flight_or_not(broker_url: str) -> None:
    clock = ManualClock()
    async with running(broker_url, clock=clock) as run:
        consumer = await run.consumer(permits=3)
        producer = await run.producer()
        positions = []
        for _ in range(6):
            positions += await producer.publish(1)
            clock.advance(1000)
        await consumer.has(3)
        _, result = await done(run, "expire", {"to": "older", "older_ms": 2500})
        assert (result["skipped_messages"], result["consumers_kept"]) == (4, 1)
        assert not consumer.closed
        consumer.flow(10)
        await consumer.has(5)
        assert consumer.positions[3:] == positions[4:]
        _, plan = await planned(run, "expire", {"to": "time", "time_ms": 1})
        assert plan["notes"] == ["every message up to there is already acknowledged"]
        _, result = await done(run, "expire", {"to": "id", "id": str(positions[4])})
        assert result["skipped_messages"] == 1


# -- pause, consumers


async def test_a_pause_stops_delivery_and_outlives_the_broker(broker_url: str) -> None:
    async with running(broker_url) as run:
        consumer = await run.consumer(permits=100)
        (held,) = await (await run.producer()).publish(1)
        await consumer.has(1)
        await done(run, "pause")
        assert "already paused" in await refused(run, "pause")
        await (await run.producer()).publish(3)
        assert await consumer.ack_durably(held) is None
        assert len(consumer.deliveries) == 1
    async with running(broker_url) as run:
        again = await run.consumer(permits=100)
        assert run.subscription().is_paused
        assert not again.deliveries
        _, result = await done(run, "resume")
        assert "3 messages are not acked" in result["words"][0]
        await again.has(3)
        assert "not paused: there is nothing to resume" in await refused(run, "resume")


async def test_a_consumer_is_disconnected_with_a_reason(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=100, name="slow")
    positions = await (await run.producer()).publish(3)
    await consumer.has(3)
    other = await run.consumer(name="quick", permits=100)
    assert "no consumer 'gone'" in await refused(run, "disconnect", {"consumer": "gone"})
    _, result = await done(run, "disconnect", {"consumer": "slow", "reason": "too slow"})
    assert consumer.closed == ["too slow"]
    assert (result["consumers_closed"], result["consumers_kept"]) == (1, 1)
    await other.has(3)
    assert sorted(other.positions) == positions


@pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED])
async def test_what_a_consumer_holds_is_delivered_again(run: BrokerRun, type_: SubscriptionType) -> None:
    consumer = await run.consumer(permits=100, type_=type_)
    positions = await (await run.producer()).publish(3)
    await consumer.has(3)
    assert consumer.consumer is not None
    _, result = await done(run, "redeliver", {"consumer_key": consumer.consumer.key})
    assert result["words"] == ["3 messages that c has not acked are delivered again"]
    await consumer.has(6)
    assert consumer.positions[3:] == positions


# -- subscriptions, bookmarks


async def test_a_subscription_is_made_at_a_place_and_removed(run: BrokerRun) -> None:
    positions = await ten(run, messages=2)
    _, plan = await planned(run, "create_subscription", {"name": "n", "to": "latest"}, subscription=None)
    assert "n" not in run.topic().subscriptions
    act_id, plan = await planned(
        run, "create_subscription", {"name": "n", "to": "id", "id": f"{positions[5]}:-1:1"}, subscription=None
    )
    assert "9 messages wait" in plan["words"][0]
    assert (await apply(run, act_id))[0] == "applied"
    assert "already has a subscription n" in await refused(
        run, "create_subscription", {"name": "n", "to": "latest"}, subscription=None
    )
    consumer = await rest_of(run, "n")
    assert consumer.positions == positions[5:]
    assert consumer.deliveries[0].remaining == 0b10
    assert "use force" in await refused(run, "delete_subscription", subscription="n")
    _, result = await done(run, "delete_subscription", {"force": True}, subscription="n")
    assert (result["skipped_messages"], result["consumers_closed"]) == (9, 1)
    assert consumer.closed
    assert one_row(run.database_url, "SELECT count(*) FROM vela_subscription") == (1,)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_plan_of_a_forced_delete_says_what_the_consumers_will_do(
    run: BrokerRun, allowed: bool
) -> None:
    await run.consumer()
    policy = {"set": {"auto_create_subscriptions": str(allowed).lower()}}
    await done(run, "set_topic_policies", policy, subscription=None)
    _, plan = await planned(run, "delete_subscription", {"force": True})
    _, result = await done(run, "delete_subscription", {"force": True})
    assert plan["words"] == result["words"]
    assert plan["words"][1:] == [
        "1 consumer is closed",
        "consumers that reconnect create it again, at their own initial position (policy auto_create_subscriptions)"
        if allowed
        else "consumers that reconnect are refused (policy auto_create_subscriptions)",
    ]
    if allowed:
        await run.consumer()
    else:
        with pytest.raises(SubscriptionNotFound):
            await run.consumer()


async def test_the_plan_of_a_delete_says_nothing_of_consumers_where_there_are_none(run: BrokerRun) -> None:
    await ten(run)
    _, plan = await planned(run, "delete_subscription", {"force": True})
    assert plan["words"] == ["s is deleted with 10 messages that it has not acked"]


async def test_a_topics_deletion_counts_what_subscriptions_without_a_consumer_have_not_acked(
    run: BrokerRun,
) -> None:
    await ten(run, messages=2)
    _, plan = await planned(run, "delete_topic", {"force": True}, subscription=None)
    assert plan["skipped_messages"] == 20
    _, result = await done(run, "delete_topic", {"force": True}, subscription=None)
    assert result["skipped_messages"] == 20


async def test_a_delete_is_refused_when_more_would_be_lost_than_it_said(run: BrokerRun) -> None:
    await ten(run)
    act_id, _ = await planned(run, "delete_subscription")
    await (await run.producer()).publish(1)
    state, result, error = await apply(run, act_id)
    assert state == "refused"
    assert (
        error
        == "1 message published after the plan would be lost, the plan showed 0; look at the new preview"
    )
    assert "s" in run.topic().subscriptions
    state, result, error = await apply(run, result["new_plan"])
    assert (state, result["skipped_messages"]) == ("applied", 11), error


@pytest.mark.parametrize("kind", ["delete_subscription", "delete_topic", "truncate"])
async def test_the_receipt_of_what_loses_messages_counts_acks_since_its_plan_and_adds_up(
    run: BrokerRun, kind: str
) -> None:
    consumer = await run.consumer(permits=100)
    other = await run.consumer(subscription="other", permits=100)
    producer = await run.producer()
    positions = await producer.publish(10)
    await consumer.has(10)
    await other.has(10)
    about: dict[str, Any] = {} if kind == "delete_subscription" else {"subscription": None}
    act_id, plan = await planned(run, kind, {} if kind == "truncate" else {"force": True}, **about)
    consumer.ack(*positions[:3])
    await producer.publish(2)
    rows(
        run.database_url,
        "UPDATE vela_act SET plan = plan || '{\"allowed_drift_messages\": 4}' WHERE id = %s",
        act_id,
    )
    state, result, error = await apply(run, act_id)
    assert state == "applied", error
    assert result["acked_meanwhile_messages"] == 3
    published = {"delete_subscription": 2, "delete_topic": 4, "truncate": 0}[kind]
    assert result.get("published_meanwhile_messages", 0) == published
    assert result["skipped_messages"] == plan["skipped_messages"] - 3 + published


async def test_a_delete_is_refused_when_fewer_would_be_lost_than_it_said_but_others(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=100)
    producer = await run.producer()
    positions = await producer.publish(10)
    await consumer.has(10)
    act_id, _ = await planned(run, "delete_topic", {"force": True}, subscription=None)
    consumer.ack(*positions)
    await producer.publish(2)
    state, result, error = await apply(run, act_id)
    assert state == "refused"
    assert "2 messages published after the plan would be lost" in error
    _, again, _, _ = await answered(run, result["new_plan"])
    assert again["skipped_messages"] == 2


async def test_a_delete_is_refused_when_a_cursor_was_made_after_its_plan(run: BrokerRun) -> None:
    await ten(run)
    act_id, _ = await planned(run, "delete_topic", {"force": True}, subscription=None)
    await run.consumer(subscription="new")
    state, result, error = await apply(run, act_id)
    assert (state, "a cursor was created" in error, "new_plan" in result) == ("refused", True, True)


async def test_bookmarks_are_made_once_and_removed(run: BrokerRun) -> None:
    positions = await ten(run)
    await done(
        run,
        "create_bookmark",
        {"name": "b", "to": "id", "id": str(positions[3]), "keep_ms": 0},
        subscription=None,
    )
    assert one_row(run.database_url, "SELECT ledger_id, entry_id, until, who FROM vela_bookmark") == (
        *positions[3],
        None,
        "op",
    )
    assert "already has a bookmark b" in await refused(
        run, "create_bookmark", {"name": "b", "to": "latest"}, subscription=None
    )
    await done(run, "delete_bookmark", {"name": "b"}, subscription=None)
    assert rows(run.database_url, "SELECT * FROM vela_bookmark") == []
    assert "has no bookmark b" in await refused(run, "delete_bookmark", {"name": "b"}, subscription=None)


# -- concurrency


@pytest.mark.row("I18")
async def test_of_ten_resets_at_once_one_wins_and_the_others_are_busy(run: BrokerRun) -> None:
    positions = await ten(run)
    consumers = [await run.consumer(name=f"c{n}", permits=100) for n in range(10)]
    await eventually(
        lambda: sum(len(each.deliveries) for each in consumers) == 10, "everything to be in flight"
    )

    async def seek(consumer: ConsumerProbe) -> BrokerError | None:
        assert consumer.consumer is not None
        try:
            await consumer.consumer.seek_position(positions[5], None)
        except BrokerError as error:
            return error
        return None

    outcomes = await asyncio.gather(*(seek(each) for each in consumers))
    for each in consumers:
        each.ack(*positions[:5])  # in flight before: they must not move the new mark-delete
    assert [error for error in outcomes if error is None] == [None]
    assert all(isinstance(error, SubscriptionBusy) for error in outcomes if error is not None)
    assert run.subscription().cursor.mark_delete == positions[4]
    assert one_row(run.database_url, "SELECT version FROM vela_cursor") == (1,)
    assert (await rest_of(run)).positions[0] == positions[5]


@pytest.mark.row("I18")
async def test_a_plan_loses_against_a_seek_that_comes_first(run: BrokerRun) -> None:
    positions = await ten(run)
    act_id, _ = await planned(run, "reset", {"to": "latest"})
    consumer = await run.consumer()
    assert consumer.consumer is not None
    await consumer.consumer.seek_position(EARLIEST, None)
    state, _, error = await apply(run, act_id)
    assert (state, "plan again" in error) == ("refused", True)
    assert (await rest_of(run)).positions == positions
    assert one_row(run.database_url, "SELECT error_code FROM vela_act WHERE id = %s", act_id) == (
        "ActConflict",
    )


# -- messages in chunks


async def chunked(run: BrokerRun, *of: str) -> list[Position]:
    """A subscription without a consumer and an entry for each word: a chunk like u0 of the message u, or another."""
    consumer = await run.consumer()
    assert consumer.consumer is not None
    consumer.consumer.detach()
    producer = await run.producer()
    for at, word in enumerate(of):
        if word == "-":
            producer.send()
        else:
            producer.send_entry(entries.chunk("p", 100 + at, int(word[1:]), 3, uuid=word[0]))
    await producer.has_receipts(len(of))
    return [Position(each.ledger_id, each.entry_id) for each in producer.receipts]


async def test_a_skip_does_not_end_inside_a_message_in_chunks(run: BrokerRun) -> None:
    positions = await chunked(run, "-", "u0", "u1", "u2", "-")
    act_id, plan = await planned(run, "skip", {"messages": 2})
    assert plan["skipped_messages"] == 4
    assert plan["notes"] == [
        (
            f"{positions[1]} is chunk 1 of 3 of a message, so all its chunks up to {positions[3]} are skipped:"
            " applications could not use the rest"
        )
    ]
    assert (await apply(run, act_id))[0] == "applied"
    assert (await rest_of(run)).positions == positions[4:]


@pytest.mark.parametrize(
    ("log", "kind", "parameters", "says"),
    [
        (["u0", "u1", "u2"], "reset", {"to": "shift", "messages": 1}, "{1} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1", "u2"], "expire", {"to": "id", "id": "{0}"}, "{1} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1", "u2"], "skip_one", {"id": "{1}"}, "{1} is chunk 2 of 3 of a message: applications cannot"),
        (["u0", "-", "u1", "u2"], "skip", {"messages": 1}, "{0} is chunk 1 of 3 of a message, and the chunks after it"),
        (["u0", "v0", "u1", "u2"], "skip", {"messages": 2}, "{2} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1"], "skip", {"messages": 1}, "{1} is chunk 2 of 3 of a message, and its"),
        (["u0", "u1", "u2", "-"], "skip", {"messages": 3}, ""),
        (["u0", "u1", "u2", "-"], "reset", {"to": "earliest"}, ""),
    ],
)  # fmt: skip
async def test_a_plan_says_where_it_parts_a_message_in_chunks(
    run: BrokerRun, log: list[str], kind: str, parameters: dict[str, Any], says: str
) -> None:
    positions = await chunked(run, *log)
    parameters = {name: _filled(value, positions) for name, value in parameters.items()}
    _, plan = await planned(run, kind, parameters)
    assert len(plan["notes"]) == bool(says)
    assert not says or plan["notes"][0].startswith(_filled(says, positions))


# -- undo after a restart


@pytest.mark.row("I3")
@pytest.mark.parametrize("is_clean", [True, False])
async def test_an_undo_after_a_restart_knows_what_was_acked_since(broker_url: str, is_clean: bool) -> None:
    async with running(broker_url) as run:
        positions = await ten(run, messages=2)
        consumer = await rest_of(run)
        act_id, result = await done(run, "skip", {"messages": 11})
        assert result["inside"] == {"position": str(positions[5]), "remaining": "2"}
        assert await consumer.ack_durably(positions[2]) is None
        assert await consumer.ack_durably(positions[8]) is None
        if is_clean:
            await run.stop()
            await run.proxy.start()
    async with running(broker_url) as run:
        again = await run.consumer(permits=100)
        await again.has(4)
        assert (
            await again.ack_durably(positions[4]) is None
        )  # held since before the restart, passed by the act
        undo, plan = await planned(run, "undo", undo_of=act_id)
        assert plan["replayed_messages"] == 7
        assert (await apply(run, undo))[0] == "applied"
        last = await rest_of(run)
        assert last.positions == [p for at, p in enumerate(positions) if at not in (2, 4, 8)]
        assert last.deliveries[3].remaining is None


@pytest.mark.row("I4")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("acked", "rest"), [([], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), ([4, 7], [0, 1, 2, 3, 5, 6, 8, 9])]
)
async def test_an_undo_is_taken_back_with_the_holes_that_it_brought(
    broker_url: str, restarts: bool, acked: list[int], rest: list[int]
) -> None:
    """All was acked but the fifth. What the undo of a reset acked beyond comes again, but for what a consumer acked."""
    async with running(broker_url) as run:
        positions = await ten(run, messages=2)
        consumer = await rest_of(run)
        assert await consumer.ack_durably(*positions[:4], *positions[5:]) is None
        reset, _ = await done(run, "reset", {"to": "earliest"})
        first, _ = await planned(run, "undo", undo_of=reset)
        assert (await apply(run, first))[0] == "applied"
        assert (await rest_of(run)).positions == [positions[4]]
        if restarts:
            await run.stop()
            await run.proxy.start()
    async with running(broker_url) as run:
        consumer = await run.consumer()
        if acked:
            assert await consumer.ack_durably(*(positions[at] for at in acked)) is None
        second, plan = await planned(run, "undo", undo_of=first)
        assert plan["target"]["backlog_messages"] == 2 * len(rest)
        assert (await apply(run, second))[0] == "applied"
        assert (await rest_of(run)).positions == [positions[at] for at in rest]


def _filled(value: Any, positions: list[Position]) -> Any:
    if not isinstance(value, str):
        return value
    for at, position in enumerate(positions):
        value = value.replace(f"{{{at}}}", str(position))
    return value
