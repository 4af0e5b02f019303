"""A broker without PostgreSQL: the real service over rows in memory, so that tests/unit takes milliseconds.

Tests of lost connections, fencing and SQL use tests/support/broker_harness.py, with a real PostgreSQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from broker.clock import Clock
from broker.conf import BrokerSettings
from broker.process.broker import Broker
from broker.storage.cursors.sessions import ConsumerRow
from tests.support.broker_harness import BrokerRun, ManualClock
from tests.support.memory_storage import MemoryStorage

__all__ = ["MemoryRun", "memory_broker", "memory_run"]

_ENVIRONMENT = {"VELA_LEDGER_MIN_AGE_S": "0", "VELA_WHEEL": "0"}


class _NoProxy:
    """Takes the place of the proxy: there is no PostgreSQL behind it."""

    url = "memory"

    async def stop(self) -> None:
        """Do nothing."""


@dataclass(kw_only=True)
class MemoryRun(BrokerRun):
    """One run of a broker over a storage that outlives it.

    Without `flushes`, cursors are stored only when the test says so.
    """

    storage: MemoryStorage
    flushes: bool = True

    async def start(self) -> None:
        """Start the parts of the broker that work without PostgreSQL."""
        self.tasks_before = asyncio.all_tasks()
        broker = self.broker
        broker.ownership.is_held = True
        broker.segments.open_id = 1
        broker.writer.start()
        if self.flushes:
            broker.flusher.start()

    async def reported_consumers(self) -> list[ConsumerRow]:
        """Report changes, and return the consumers as the console sees them, ordered by key."""
        await self.broker.reporter._report()
        return [row for _, row in sorted(self.storage.consumers.items())]


def memory_run(
    storage: MemoryStorage, *, clock: Clock | None = None, flushes: bool = True, **settings: Any
) -> MemoryRun:
    """Return a broker that is not started yet. Call this and everything else inside `storage.installed()`."""
    clock = clock or ManualClock()
    chosen = replace(BrokerSettings.from_environment(_ENVIRONMENT), **settings)
    return MemoryRun(
        database_url="memory",
        proxy=_NoProxy(),  # type: ignore[arg-type]
        clock=clock,
        settings=chosen,
        broker=Broker(chosen, "memory", clock=clock),
        storage=storage,
        flushes=flushes,
    )


@asynccontextmanager
async def memory_broker(
    storage: MemoryStorage | None = None, *, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[MemoryRun]:
    """Run a broker over a new storage, or over one that an earlier broker left, and crash it at the end."""
    storage = storage or MemoryStorage()
    with storage.installed():
        run = memory_run(storage, clock=clock, **settings)
        await run.start()
        try:
            yield run
        finally:
            await run.crash()
