"""The start of the broker's process."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from broker.conf import EXIT_LOCK_TAKEN
from broker.process.ownership import BrokerAlreadyRuns
from broker.process.serving import CannotStart, _start


class SecondBroker:
    """A broker that finds the lock taken."""

    async def start(self) -> None:
        """Refuse as `Broker.start` does."""
        raise BrokerAlreadyRuns("another broker already runs on this database")


async def test_a_taken_lock_has_the_exit_code_after_which_a_supervisor_tries_again() -> None:
    with pytest.raises(CannotStart, match="another broker already runs") as refused:
        await _start(cast("Any", SecondBroker()), asyncio.Event())
    assert refused.value.exit_code == EXIT_LOCK_TAKEN
