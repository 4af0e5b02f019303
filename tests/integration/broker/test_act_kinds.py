"""The effect of each kind of act on a cursor in a running broker. Requests that make no sense change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.broker.acting import filled, rest_of, ten
from tests.support.acting import apply, done, planned, refused
from tests.support.broker_harness import (
    BrokerRun,
    ManualClock,
    one_row,
    rows,
    running,
)


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
async def test_a_reset_moves_the_cursor_to_its_target(
    run: BrokerRun, place: dict[str, Any], first: int
) -> None:
    positions = await ten(run)
    await done(
        run, "create_subscription", {"name": "other", "to": "id", "id": str(positions[6])}, subscription=None
    )
    await done(run, "create_bookmark", {"name": "before", "to": "like", "like": "other"}, subscription=None)
    place = {name: filled(value, positions) for name, value in place.items()}
    _, result = await done(run, "reset", place)
    assert result["skipped_messages"] == first
    assert (await rest_of(run)).positions == positions[first:]


@pytest.mark.parametrize(
    ("acked", "note"), [(8, "only 2 messages are left to skip"), (10, "no message is left to skip")]
)
async def test_a_skip_beyond_the_end_says_what_is_left(run: BrokerRun, acked: int, note: str) -> None:
    await ten(run)
    await done(run, "skip", {"messages": acked})
    assert (await planned(run, "skip", {"messages": 3}))[1]["notes"] == [note]


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


async def test_a_shift_from_before_a_partly_acked_batch_says_which_messages_count(run: BrokerRun) -> None:
    positions = await ten(run, messages=4)
    await done(run, "skip", {"messages": 2})
    counts_from = (
        f"shift counts from the mark-delete position, {positions[0].ledger_id}:-1, so the acknowledged messages"
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


async def test_a_message_of_a_deleted_topic_is_not_reported_as_trimmed(
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


async def test_a_plan_names_the_next_message_now_and_after_the_act(run: BrokerRun) -> None:
    def following(plan: dict[str, Any], when: str) -> tuple[object, object, bool]:
        place = plan[when]
        return place["next"], place["inside"], place["next_append_ms"] is not None

    positions = await ten(run, messages=3)
    inside = {"position": str(positions[1]), "remaining": "6"}
    act_id, plan = await planned(run, "skip", {"messages": 4})
    assert following(plan, "current") == (str(positions[0]), None, True)
    assert following(plan, "target") == (str(positions[1]), inside, True)
    await apply(run, act_id)
    _, plan = await planned(run, "skip_one", {"id": str(positions[5])})
    assert following(plan, "current") == following(plan, "target") == (str(positions[1]), inside, True)
    _, plan = await planned(run, "skip_one", {"id": f"{positions[1]}:-1:1"})
    assert following(plan, "target") == (str(positions[1]), {**inside, "remaining": "4"}, True)
    act_id, plan = await planned(run, "clear")
    assert following(plan, "target") == (None, None, False)
    await apply(run, act_id)
    _, plan = await planned(run, "reset", {"to": "earliest"})
    assert following(plan, "current") == (None, None, False)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", "write it as ledger:entry"),
        ("1:2:3:4:5", "write it as ledger:entry"),
        ("01:0", "write it as ledger:entry"),
        ("99999999999999999999:0", "a number is too large; ledger and entry are at most 9223372036854775807"),
        ("1:0:-1:2147483648", "a number is too large"),
        ("-1:-1", "cannot be negative"),
        ("{0}:-1:4", "has 1 message, so there is no index 4"),
        ("{0}:2:0", "names partition 2"),
        (
            "{0}:2",
            "names partition 2; persistent://public/default/t is not partitioned: write one message of a batch",
        ),
        ("{other}", "belongs to persistent://public/default/other, not to"),
        ("999999:0", "has no ledger 999999"),
    ],
)
async def test_an_id_that_does_not_belong_to_the_topic_is_refused(
    run: BrokerRun, text: str, complaint: str
) -> None:
    (other,) = await (await run.producer("other")).publish(1)
    positions = await ten(run)
    text = filled(text.replace("{other}", str(other)), positions)
    before = one_row(run.database_url, "SELECT mark_delete_entry, version FROM vela_cursor")
    for kind, parameters in (
        ("reset", {"to": "id", "id": text}),
        ("skip_one", {"id": text}),
        ("expire", {"to": "id", "id": text}),
    ):
        assert complaint in await refused(run, kind, parameters), kind
    assert one_row(run.database_url, "SELECT mark_delete_entry, version FROM vela_cursor") == before


@pytest.mark.parametrize(
    "parameters", [{"to": "back_time", "back_ms": 10**20}, {"to": "time", "time_ms": 10**20}]
)
async def test_a_time_out_of_range_is_refused(run: BrokerRun, parameters: dict[str, Any]) -> None:
    await ten(run)
    assert "_ms is 100000000000000000000: it takes a whole number from" in await refused(
        run, "reset", parameters
    )


async def test_a_place_after_the_end_is_noted_in_the_plan_or_refused(run: BrokerRun) -> None:
    positions = await ten(run)
    after = f"{positions[-1].ledger_id}:500"
    _, plan = await planned(run, "reset", {"to": "id", "id": after})
    assert "after the last message" in plan["notes"][0]
    assert "is after the last message" in await refused(run, "expire", {"to": "id", "id": after})
    assert "nothing to skip" in await refused(run, "skip_one", {"id": after})
    assert "no subscription 'nope'" in await refused(run, "reset", {"to": "like", "like": "nope"})
    assert "no bookmark 'nope'" in await refused(run, "reset", {"to": "bookmark", "bookmark": "nope"})


async def test_a_missing_object_has_its_own_error_code(run: BrokerRun) -> None:
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


# -- skipping
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


async def test_older_messages_expire_whether_pending_or_not(broker_url: str) -> None:
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
