"""The fixtures of tests that run a broker in their own loop."""

from __future__ import annotations

import pytest

from tests.support.broker_fixtures import broker_url, run
from tests.support.broker_harness import BrokerRun

__all__ = ["broker_url", "run"]


@pytest.fixture
def acts_of_run(run: BrokerRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the requests for acts in this broker's database."""
    monkeypatch.setattr("broker.storage.short_connection.conninfo", lambda: run.database_url)
