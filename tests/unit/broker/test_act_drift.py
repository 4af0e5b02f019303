"""A reset whose replay has grown since its plan: applied if the plan allows the drift, else refused with a new plan."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.acts.kinds.drift import Drift
from broker.core.position import Position
from broker.log.reader import TopicReader
from tests.model.operator import Operator, PlannedAct
from tests.support.broker_harness import ConsumerProbe, ManualClock
from tests.support.memory_broker import MemoryRun, memory_broker

OPERATOR = Operator("t", "s")
EARLIEST = {"to": "earliest"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def run(clock: ManualClock) -> AsyncIterator[MemoryRun]:
    async with memory_broker(clock=clock) as started:
        yield started


async def delivered(run: MemoryRun, messages: int) -> tuple[ConsumerProbe, list[Position]]:
    """Deliver messages to one consumer, which acks none, and let the broker compute its rates once."""
    consumer = await run.consumer(permits=messages)
    positions = await (await run.producer()).publish(messages)
    await consumer.has(messages)
    await run.reported_consumers()
    return consumer, positions


async def planned(run: MemoryRun) -> PlannedAct:
    return await OPERATOR.plan(run, "reset", set, EARLIEST)


async def test_a_replay_that_has_grown_is_refused_and_the_refused_act_names_its_new_plan(
    run: MemoryRun,
) -> None:
    consumer, positions = await delivered(run, 100)
    consumer.ack(*positions[:5])
    act = await planned(run)
    consumer.ack(*positions[5:89])
    assert not await OPERATOR.apply(run, act)
    refused = run.storage.acts[act.act_id]
    assert refused.error == "89 messages would be delivered again, the plan showed 5; look at the new preview"
    assert refused.error_code == "ActConflict"
    again = run.storage.acts[refused.result["new_plan"]]
    assert (again.state, again.kind) == ("planned", "reset")
    assert again.plan is not None
    assert refused.plan is not None
    assert again.plan["replayed_messages"] == 89
    assert again.plan["pinned"] == refused.plan["pinned"]
    assert run.subscription().cursor.backlog_messages == 11
    new = PlannedAct(
        act_id=refused.result["new_plan"], kind="reset", undo_of=None, change=set, parameters=EARLIEST
    )
    assert await OPERATOR.apply(run, new)
    assert run.subscription().cursor.backlog_messages == 100


async def test_consumers_of_a_refused_reset_stay_and_their_acks_count(
    run: MemoryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, positions = await delivered(run, 10)
    consumer.ack(positions[0])
    act = await planned(run)
    consumer.ack(positions[1])

    async def acking_meanwhile(reader: TopicReader, position: Position) -> int:
        consumer.ack(positions[2])
        return 0

    monkeypatch.setattr(TopicReader, "append_ms", acking_meanwhile)  # the preview during the apply calls this
    assert not await OPERATOR.apply(run, act)
    assert not consumer.closed
    assert run.subscription().cursor.is_acked(positions[2])


async def test_a_plan_says_how_fast_it_drifts_and_allows_for_that(run: MemoryRun, clock: ManualClock) -> None:
    consumer, positions = await delivered(run, 200)
    for second in range(20):
        clock.advance(1000)
        consumer.ack(*positions[4 * second : 4 * second + 4])
        await run.reported_consumers()
    act = await planned(run)
    plan = run.storage.acts[act.act_id].plan
    assert plan is not None
    assert plan["replayed_messages"] == 80
    assert plan["drift"] == {
        "cause": "acked",
        "messages_per_s": 4.0,
        "measured_over_s": 5,
        "applied_within_s": 30,
        "messages": 120,
        "words": "4 messages a second are being acked; up to 120 more are delivered again if you apply within 30 s;"
        " beyond that the act is refused, with a new preview",
    }
    assert plan["allowed_drift_messages"] == 120
    consumer.ack(*positions[80:])
    assert await OPERATOR.apply(run, act)
    result = run.storage.acts[act.act_id].result
    assert (result["replayed_messages"], result["acked_meanwhile_messages"]) == (200, 120)


@pytest.mark.parametrize(
    ("messages_per_s", "words"),
    [
        (0.25, "0.2 messages a second are"),
        (1.0, "1 message a second is"),
        (9.4, "9 messages a second are"),
        (9.7, "10 messages a second are"),
        (1234.5, "1234 messages a second are"),
    ],
)
def test_a_rate_is_never_written_with_an_exponent(messages_per_s: float, words: str) -> None:
    drift = Drift(cause="acked", messages_per_s=messages_per_s)
    assert str(drift.to_json(0)["words"]).startswith(f"{words} being acked; ")


@pytest.mark.parametrize(("allowed", "is_applied"), [(0, False), (2, False), (3, True)])
async def test_an_operator_sets_the_allowed_drift(run: MemoryRun, allowed: int, is_applied: bool) -> None:
    consumer, positions = await delivered(run, 10)
    act = await planned(run)
    consumer.ack(*positions[:3])
    assert await OPERATOR.apply(run, act, allowed_drift_messages=allowed) is is_applied


async def test_by_default_a_plan_that_needs_no_typed_name_needs_none_when_it_is_applied(
    run: MemoryRun, clock: ManualClock
) -> None:
    consumer, positions = await delivered(run, 10)
    publishing = await run.producer()
    large = [(await publishing.publish(1, messages=1000))[0] for _ in range(11)]
    consumer.flow(11_000)
    await consumer.has(21)
    consumer.ack(*large[:9])
    act = await planned(run)
    clock.advance(1000)
    await run.reported_consumers()
    act = await planned(run)
    plan = run.storage.acts[act.act_id].plan
    assert plan is not None
    assert (plan["replayed_messages"], plan["allowed_drift_messages"]) == (9000, 1000)
    assert (
        "10000 in all; beyond that the act is refused, with a new preview that you confirm by typing the name"
        in (plan["drift"]["words"])
    )
    consumer.ack(large[9], positions[0])
    assert not await OPERATOR.apply(run, act)
