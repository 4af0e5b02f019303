"""The admin API's health check."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from broker.doors.admin import brokers
from tests.integration.broker.test_admin_long_runs import ask
from tests.support.broker_harness import BrokerRun

PATH = "/admin/v2/brokers/health"


async def test_a_broker_whose_database_does_not_answer_is_not_healthy(
    run: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise psycopg.OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(run.broker.pool, "use", away)
    monkeypatch.setattr(brokers, "_HEALTH_WAIT_S", 0.0, raising=False)
    assert run.broker.is_ready() == (True, "")
    status, answer = await asyncio.wait_for(ask(run, "GET", None, PATH), 10)
    assert status == 500
    assert answer == {"reason": "PostgreSQL does not answer"}
