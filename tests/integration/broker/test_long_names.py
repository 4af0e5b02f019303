"""Names that PostgreSQL's indexes refuse: the request gets an error, and later requests are not delayed."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from broker.core.errors import BrokerError, InvalidTopicName, NotAllowed, PersistenceFailed
from broker.core.position import EARLIEST
from broker.core.subscription.types import SubscriptionType
from broker.storage.acts.bookmarks import create as bookmarks_create
from tests.support.acting import answered, apply, ask, done, planned
from tests.support.broker_harness import BrokerRun, rows, running

TIMEOUT_S = 5
ACT_CHECKS = {
    "create_subscription": "broker.acts.kinds.subscriptions.subscriptions.check_name",
    "create_bookmark": "broker.acts.kinds.cursors.bookmarks.check_storable",
}


def incompressible() -> str:
    """Return a name of 4,000 bytes, which no compression makes small enough for an index."""
    return secrets.token_urlsafe(3000)


async def test_a_refused_subscription_is_answered_and_others_are_created(run: BrokerRun) -> None:
    await run.producer()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            await run.topic().subscriptions.find_or_create(
                incompressible(), SubscriptionType.SHARED, EARLIEST, {}
            )
        with (
            patch("broker.topics.client_requests.check_name"),
            pytest.raises(PersistenceFailed, match="refused it: index row size"),
        ):
            await run.consumer(subscription=incompressible())
        await run.consumer()


@pytest.mark.parametrize(("kind", "check"), ACT_CHECKS.items())
async def test_a_refused_act_fails_and_later_acts_are_carried_out(
    run: BrokerRun, kind: str, check: str
) -> None:
    await run.producer()
    with patch(check):
        act_id, _ = await planned(run, kind, {"name": incompressible(), "to": "latest"}, subscription=None)
        async with asyncio.timeout(TIMEOUT_S):
            state, _, error = await apply(run, act_id)
    assert (state, "the database refused it: index row size" in error) == ("failed", True)
    await done(run, kind, {"name": "short", "to": "latest"}, subscription=None)


async def test_a_refused_act_that_waited_for_a_broker_does_not_block_it(broker_url: str) -> None:
    kind = "create_bookmark"
    with patch(ACT_CHECKS[kind]):
        async with running(broker_url) as run:
            await run.producer()
            act_id, _ = await planned(
                run, kind, {"name": incompressible(), "to": "latest"}, subscription=None
            )
            await run.crash()
            # No broker runs: both requests wait for the next one.
            rows(
                broker_url,
                "UPDATE vela_act SET state = 'apply_requested', requested_at = now() WHERE id = %s",
                act_id,
            )
            behind = await ask(run, kind, {"name": "short", "to": "latest"}, subscription=None)
        async with running(broker_url) as run:
            assert (await answered(run, act_id))[0] == "failed"
            assert (await answered(run, behind))[0] == "planned"


async def test_an_act_waits_for_a_database_that_is_away(run: BrokerRun) -> None:
    await run.producer()
    act_id, _ = await planned(run, "create_bookmark", {"name": "b", "to": "latest"}, subscription=None)
    faults: list[psycopg.Error] = [psycopg.errors.DiskFull("no space"), psycopg.OperationalError("lost")]

    async def create(*args: Any, **named: Any) -> object:
        if faults:
            raise faults.pop()
        return await bookmarks_create(*args, **named)

    with patch("broker.storage.acts.bookmarks.create", create):
        assert (await apply(run, act_id))[0] == "applied"
    assert not faults


@pytest.mark.parametrize(
    ("open_it", "refusal"),
    [
        (lambda run, name: run.consumer(subscription=name), NotAllowed),
        (lambda run, name: run.consumer(name=name), NotAllowed),
        (lambda run, name: run.producer(name=name), NotAllowed),
        (lambda run, name: run.producer(initial_subscription=name), NotAllowed),
        (lambda run, name: run.producer(name), InvalidTopicName),
    ],
)
async def test_a_name_of_more_than_1024_bytes_is_refused(
    run: BrokerRun, open_it: object, refusal: type[BrokerError]
) -> None:
    assert callable(open_it)
    with pytest.raises(refusal, match="is 1026 bytes long; at most 1024"):
        await open_it(run, "é" * 513)
