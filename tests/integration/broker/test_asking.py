"""Acts, requested as the console, the commands and the API do: allowed drift, names in refusals, undone acts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from broker.acts import requests as acts
from tests.support.broker_harness import BrokerRun, rows

pytestmark = pytest.mark.usefixtures("acts_of_run")

T = "persistent://public/default/t"


async def asked(call: Any, *given: Any, **named: Any) -> acts.ActView:
    """Call this in a thread, because the requesting side is synchronous."""
    view: acts.ActView = await asyncio.to_thread(
        partial(call, *given, who="op", origin="test", wait_s=8, **named)
    )
    return view


async def a_plan(kind: str, **parameters: Any) -> acts.ActView:
    return await asked(acts.plan, kind, topic=T, subscription="s", parameters=parameters)


async def test_an_apply_sets_the_allowed_drift_and_the_act_stores_it(run: BrokerRun) -> None:
    consumer = await run.consumer(permits=10)
    positions = await (await run.producer()).publish(10)
    await consumer.has(10)
    first = await a_plan("reset", to="earliest")
    consumer.ack(*positions[:3])
    refused = await asked(acts.apply, first.id, allowed_drift_messages=2)
    assert (refused.state, refused.error_code, refused.is_retriable) == ("refused", "ActConflict", True)
    assert refused.plan is not None
    assert refused.plan["allowed_drift_messages"] == 2
    assert refused.new_plan is not None
    again = acts.get(refused.new_plan)
    assert (again.state, again.who, again.parameters) == ("planned", "op", {"to": "earliest"})
    consumer.ack(positions[3])
    applied = await asked(acts.apply, again.id, allowed_drift_messages=1)
    assert applied.state == "applied", applied.error
    assert applied.result is not None
    assert applied.result["replayed_messages"] == 4


@pytest.mark.parametrize("allowed", [-1, 10**16])
async def test_a_wrong_allowance_leaves_the_plan_unchanged(run: BrokerRun, allowed: int) -> None:
    await run.consumer()
    planned = await a_plan("clear")
    with pytest.raises(acts.ActRefused, match="allowed_drift_messages"):
        await asked(acts.apply, planned.id, allowed_drift_messages=allowed)
    assert acts.get(planned.id).state == "planned"


async def test_an_act_that_was_undone_names_the_act_that_undid_it_and_cannot_be_undone_again(
    run: BrokerRun,
) -> None:
    await run.consumer()
    await (await run.producer()).publish(3)
    skip = await asked(acts.apply, (await a_plan("skip", messages=2)).id)
    assert (skip.undoable, skip.undone_by) == (True, None)
    undo = await asked(acts.plan_undo, skip.id, reason="too early")
    assert (undo.reason, acts.get(skip.id).undone_by) == ("too early", None)
    undo = await asked(acts.apply, undo.id)
    skip = acts.get(skip.id)
    assert (skip.undoable, skip.undone_by) == (False, undo.id)
    assert (undo.undoable, undo.undone_by) == (True, None)
    assert (skip.undo_obstacle, skip.moved_by, undo.undo_obstacle) == ("undone", undo.id, "")
    with pytest.raises(acts.ActRefused, match=f"act {skip.id} was already undone by act {undo.id}"):
        await asked(acts.plan_undo, skip.id)


async def test_an_act_says_what_keeps_it_from_being_undone(run: BrokerRun) -> None:
    await run.consumer()
    await (await run.producer()).publish(4)
    first = await asked(acts.apply, (await a_plan("skip", messages=1)).id)
    second = await asked(acts.apply, (await a_plan("skip", messages=1)).id)
    first = acts.get(first.id)
    assert (first.undoable, first.undo_obstacle, first.moved_by) == (False, "moved", second.id)
    rows(run.database_url, "UPDATE vela_act SET undo_until = now() WHERE id = %s", second.id)
    assert acts.get(second.id).undo_obstacle == "time over"
    rows(run.database_url, "UPDATE vela_act SET undo_until = NULL WHERE id = %s", second.id)
    assert acts.get(second.id).undo_obstacle == "no time"
    deleted = await asked(acts.apply, (await a_plan("delete_subscription", force=True)).id)
    assert acts.get(second.id).undo_obstacle == "cursor gone"
    assert (deleted.undo_obstacle, deleted.no_undo) == ("kind", "it cannot be undone")
