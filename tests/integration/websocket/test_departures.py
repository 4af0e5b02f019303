"""Which consumer left a subscription and why, as the console's diagnosis shows it."""

from __future__ import annotations

import pytest

from broker.doors.websocket.socket import NO_CLOSE_FRAME
from tests.support.broker_harness import BrokerRun, eventually, rows
from tests.support.json_peer import JsonPeer

CAUSE = "SELECT cause FROM vela_consumer_departure"


@pytest.mark.parametrize(("code", "cause"), [(1000, "closed"), (1005, "closed"), (NO_CLOSE_FRAME, "lost")])
async def test_a_consumer_that_closes_is_not_lost(run: BrokerRun, code: int, cause: str) -> None:
    peer = await JsonPeer.open(run, "subscriptionType=Shared")
    await peer.peer.leave(code)
    await eventually(lambda: rows(run.database_url, CAUSE) == [(cause,)], "the departure")


async def test_a_consumer_that_unsubscribes_has_closed(run: BrokerRun) -> None:
    probe = await run.consumer()
    assert probe.consumer is not None
    await probe.consumer.unsubscribe(force=False)
    assert probe.consumer.departure == "closed"
