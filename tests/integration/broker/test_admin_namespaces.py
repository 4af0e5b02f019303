"""The admin API's namespaces: refused policies, and subscriptions that are deleted while an act runs on all of them."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from broker.doors.admin import namespaces
from broker.subscription.moves.cursor_move import CursorMove
from tests.integration.broker.test_admin_long_runs import ask
from tests.support.broker_harness import BrokerRun

PATH = "/admin/v2/namespaces/public/default/"
TOPIC = "persistent://public/default/t"


@pytest.mark.parametrize("act", ["clearBacklog", "clearBacklog/s", "unsubscribe/s"])
async def test_a_subscription_that_is_already_gone_does_not_stop_an_act_on_the_others(
    run: BrokerRun, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await run.producer()
    consumer = await run.consumer()
    await producer.publish(1)
    assert consumer.consumer is not None
    consumer.consumer.detach()
    listed = [(TOPIC.replace("/t", "/gone"), "s"), (TOPIC, "gone"), (TOPIC, "s")]

    async def before_the_deletion(*_: object) -> list[tuple[str, str]]:
        return listed

    monkeypatch.setattr(namespaces, "_subscriptions", before_the_deletion)
    assert await ask(run, "POST", None, PATH + act) == (204, None)
    left = run.topic().subscriptions.get("s")
    assert left is None if act.startswith("un") else left is not None and not left.cursor.backlog_entries


async def test_a_subscription_that_is_deleted_while_its_act_waits_does_not_fail_the_request(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, producer = await run.consumer(), await run.producer()
    await producer.publish(1)
    assert consumer.consumer is not None
    consumer.consumer.detach()
    moves, waits = run.subscription().moves, asyncio.Event()
    moving = CursorMove.moving

    def noticed(self: CursorMove, *, closes_consumers: bool) -> AbstractAsyncContextManager[None]:
        if not closes_consumers:
            waits.set()
        return moving(self, closes_consumers=closes_consumers)

    monkeypatch.setattr(CursorMove, "moving", noticed)
    async with moves.idle():
        removing = asyncio.create_task(moves.remove("an operator deleted it"))
        clearing = asyncio.create_task(ask(run, "POST", None, f"{PATH}clearBacklog"))
        await asyncio.wait_for(waits.wait(), 10)
    await removing
    assert await clearing == (204, None)


async def test_a_subscription_in_use_does_not_stop_the_deletion_on_other_topics(run: BrokerRun) -> None:
    await run.consumer("a")
    gone = await run.consumer("b")
    assert gone.consumer is not None
    gone.consumer.detach()
    status, _ = await ask(run, "POST", None, f"{PATH}unsubscribe/s")
    assert status == 412
    assert list(run.topic("a").subscriptions) == ["s"]
    assert not run.topic("b").subscriptions


async def test_a_namespace_is_not_created_if_a_policy_is_refused(run: BrokerRun) -> None:
    path = "/admin/v2/namespaces/public/new"
    status, answer = await ask(run, "PUT", {"max_producers_per_topic": 2**53}, path)
    assert (status, "max_producers" in answer["reason"]) == (412, True)
    assert (await ask(run, "GET", None, path))[0] == 404
    assert await ask(run, "PUT", {"max_producers_per_topic": 5}, path) == (204, None)
    assert (await ask(run, "GET", None, path))[1]["max_producers_per_topic"] == 5


@pytest.mark.parametrize("name", ["a\0b", "a b"])
async def test_a_name_that_no_tenant_can_have_is_not_found(
    run: BrokerRun, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (f"/admin/v2/tenants/{name}", f"/admin/v2/namespaces/{name}"):
        assert await ask(run, "GET", None, path) == (404, {"reason": "Tenant does not exist"})
    body = {"allowedClusters": ["vela"]}
    assert (await ask(run, "POST", body, f"/admin/v2/tenants/{name}"))[0] == 404
    assert (await ask(run, "DELETE", None, f"/admin/v2/tenants/{name}"))[0] == 404
    assert "the database failed" not in caplog.text
