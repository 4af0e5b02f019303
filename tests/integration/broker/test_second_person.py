"""On a namespace with the policy second_person, one user plans an act and another applies it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from broker.acts import requests as acts
from broker.acts.kinds.parameters import ActInvalid
from broker.acts.second_person import SecondPersonNeeded
from broker.storage.acts import acts as store
from broker.storage.connection import Connection
from broker.storage.log import sweep
from tests.integration.broker.topic_acting import T, done
from tests.support.broker_harness import BrokerRun, one_row, rows

pytestmark = pytest.mark.usefixtures("acts_of_run")

HERE = "console 127.0.0.1"
HOUR = 3600


async def guarded(run: BrokerRun) -> None:
    """Create the topic, and set the policy second_person on its namespace."""
    await run.producer()
    await done("set_namespace_policies", "public/default", set={"second_person": "true"})


async def plan(
    who: str, kind: str = "unload", topic: str = T, origin: str = HERE, **given: Any
) -> acts.ActView:
    return await asyncio.to_thread(
        partial(acts.plan, kind, topic=topic, parameters=given, who=who, origin=origin, wait_s=8)
    )


async def apply(act: acts.ActView, who: str, origin: str = HERE, **how: Any) -> acts.ActView:
    return await asyncio.to_thread(partial(acts.apply, act.id, who=who, origin=origin, wait_s=8, **how))


async def test_the_plan_that_sets_the_policy_says_what_it_means(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("ada", "set_namespace_policies", "public/default", set={"second_person": "true"})
    assert planned.plan is not None
    assert planned.plan["notes"][-1].startswith("from then on, another user must apply each act")
    assert (await apply(planned, "ada")).state == "applied"


async def test_another_user_applies_what_one_user_planned(run: BrokerRun) -> None:
    await guarded(run)
    planned = await plan("ada")
    assert (planned.state, planned.needs_second_person) == ("planned", True)
    applied = await apply(planned, "ben", "api 10.0.0.9")
    assert (applied.state, applied.needs_second_person) == ("applied", False)
    assert (applied.planned_by, applied.planned_from) == ("ada", HERE)
    assert (applied.who, applied.origin) == ("ben", "api 10.0.0.9")


@pytest.mark.parametrize(
    ("who", "origin", "says"),
    [
        ("ada", HERE, "you planned it, so another user must apply it"),
        ("ada", "api 10.0.0.9", "you planned it, so another user must apply it"),
        ("root (token)", "token 127.0.0.1", "only users with an account count"),
        ("root", "command line", "only users with an account count"),
        ("anonymous", "admin", "only users with an account count"),
        ("ben", "console-ben", "only users with an account count"),
    ],
)
async def test_neither_the_planner_nor_a_requester_without_an_account_applies_the_plan(
    who: str, origin: str, says: str, run: BrokerRun
) -> None:
    await guarded(run)
    planned = await plan("ada")
    with pytest.raises(acts.ActRefused, match=says) as refused:
        await apply(planned, who, origin, reason="it is late")
    assert refused.value.code == "SecondPersonNeeded"
    after = acts.get(planned.id)
    assert (after.state, after.who, after.reason) == ("planned", "ada", "")


@pytest.mark.parametrize("origin", ["token 127.0.0.1", "command line"])
async def test_a_requester_without_an_account_plans_nothing(origin: str, run: BrokerRun) -> None:
    await guarded(run)
    with pytest.raises(acts.ActRefused, match="public/default asks for a second person"):
        await plan("root", origin=origin)
    assert rows(run.database_url, "SELECT state, error_code FROM vela_act ORDER BY id DESC LIMIT 1") == [
        ("refused", "SecondPersonNeeded")
    ]


async def test_an_earlier_plan_without_an_account_is_not_applied(run: BrokerRun) -> None:
    await run.producer()
    planned = await plan("root", origin="command line")
    await done("set_namespace_policies", "public/default", set={"second_person": "true"})
    with pytest.raises(acts.ActRefused, match=r"planned without a user's account \(command line\)"):
        await apply(planned, "ben")


async def test_the_admin_api_cannot_act_where_a_second_person_is_needed(run: BrokerRun) -> None:
    await guarded(run)
    with pytest.raises(SecondPersonNeeded, match="let another user apply it"):
        await run.broker.own_requests.carry_out("unload", topic=T, who="anonymous", origin="admin")
    assert rows(run.database_url, "SELECT state, who, origin FROM vela_act ORDER BY id DESC LIMIT 1") == [
        ("refused", "anonymous", "admin")
    ]


@pytest.mark.parametrize(
    ("is_refused", "says", "code"),
    [
        (True, "user ben refused the plan: not on a Friday", "NotApproved"),
        (False, "is failed: only a planned act can be applied", "WrongState"),
    ],
)
async def test_the_admin_api_says_what_became_of_its_plan(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch, is_refused: bool, says: str, code: str
) -> None:
    await run.producer()
    request_apply = store.request_apply

    async def after_the_refusal(connection: Connection, act_id: int, **given: Any) -> bool:
        if is_refused:
            await asyncio.to_thread(acts.refuse, act_id, who="ben", origin=HERE, reason="not on a Friday")
        else:
            await connection.execute("UPDATE vela_act SET state = 'failed' WHERE id = %s", (act_id,))
        return await request_apply(connection, act_id, **given)

    monkeypatch.setattr(store, "request_apply", after_the_refusal)
    with pytest.raises(ActInvalid, match=says) as refused:
        await run.broker.own_requests.carry_out("unload", topic=T, who="anonymous", origin="admin")
    assert refused.value.code == code


async def test_removing_the_policy_needs_a_second_person_too(run: BrokerRun) -> None:
    await guarded(run)
    planned = await plan("ada", "set_namespace_policies", "public/default", unset="second_person")
    with pytest.raises(acts.ActRefused, match="waits for a second person"):
        await apply(planned, "ada")
    assert (await apply(planned, "ben")).state == "applied"
    alone = await plan("ada")
    assert not alone.needs_second_person
    assert (await apply(alone, "ada")).planned_by == "ada"


async def test_other_namespaces_need_only_one_person(run: BrokerRun) -> None:
    await guarded(run)
    planned = await plan("ada", "create_namespace", "acme/orders")
    assert not planned.needs_second_person
    assert (await apply(planned, "ada")).state == "applied"


async def test_a_reason_is_still_needed_where_the_namespace_is_protected(run: BrokerRun) -> None:
    await run.producer()
    both = {"second_person": "true", "protected": "true"}
    await done("set_namespace_policies", "public/default", set=both)
    planned = await plan("ada")
    for who, code in (("ada", "SecondPersonNeeded"), ("ben", "ReasonMissing")):
        with pytest.raises(acts.ActRefused) as refused:
            await apply(planned, who)
        assert refused.value.code == code
    assert (await apply(planned, "ben", reason="a drill")).state == "applied"


async def test_a_new_plan_belongs_to_the_user_who_applied_the_outdated_one(run: BrokerRun) -> None:
    """The first planner or a third person then applies the new plan, so two people have seen its numbers."""
    producer = await run.producer()
    await producer.publish(1)
    await run.consumer()
    await done("set_namespace_policies", "public/default", set={"second_person": "true"})
    planned = await asyncio.to_thread(
        partial(
            acts.plan,
            "delete_subscription",
            topic=T,
            subscription="s",
            parameters={"force": True},
            who="ada",
            origin=HERE,
            wait_s=8,
        )
    )
    assert planned.state == "planned", planned.error
    await producer.publish(1)
    refused = await apply(planned, "ben")
    assert (refused.state, refused.planned_by) == ("refused", "ada")
    assert refused.new_plan is not None
    again = acts.get(refused.new_plan)
    assert (again.who, again.planned_by, again.needs_second_person) == ("ben", "ben", True)
    with pytest.raises(acts.ActRefused, match="waits for a second person"):
        await apply(again, "ben")
    assert (await apply(again, "ada")).state == "applied"


@pytest.mark.parametrize(
    ("who", "reason", "says"),
    [
        ("ben", " not on a Friday ", "user ben refused the plan: not on a Friday"),
        ("ada", "", "user ada withdrew the plan"),
    ],
)
async def test_a_plan_is_refused_or_withdrawn(who: str, reason: str, says: str, run: BrokerRun) -> None:
    await guarded(run)
    planned = await plan("ada")
    refused = acts.refuse(planned.id, who=who, origin=HERE, reason=reason)
    assert (refused.state, refused.error, refused.error_code) == ("refused", says, "NotApproved")
    assert (refused.planned_by, refused.who) == ("ada", who)
    with pytest.raises(acts.ActRefused, match="only a planned act can be applied"):
        await apply(planned, "ben")
    with pytest.raises(acts.ActRefused, match="only a planned act can be refused"):
        acts.refuse(planned.id, who="ben", origin=HERE)


async def test_a_plan_waits_longer_for_a_second_person(run: BrokerRun) -> None:
    await guarded(run)
    waiting = await plan("ada")
    elsewhere = await plan("ada", "create_namespace", "acme/orders")

    def age(act: acts.ActView, age_s: int) -> None:
        one_row(
            run.database_url,
            "UPDATE vela_act SET finished_at = now() - make_interval(secs => %s) WHERE id = %s RETURNING id",
            age_s,
            act.id,
        )

    for act in (waiting, elsewhere):
        age(act, 2 * HOUR)
    assert sweep.expire_plans(HOUR, second_person_s=24 * HOUR) == 1
    assert [acts.get(act.id).state for act in (waiting, elsewhere)] == ["planned", "expired"]
    age(waiting, 25 * HOUR)
    assert sweep.expire_plans(HOUR, second_person_s=24 * HOUR) == 1
    with pytest.raises(acts.ActRefused, match="is expired: only a planned act can be applied"):
        await apply(waiting, "ben")
