"""The lock that only one broker of a database can hold, and the row that names the holder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["Holder", "end_own_holder", "holder", "name_broker", "seen", "stopped", "try_lock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that took the broker lock of this database."""

    host: str
    pid: int
    started_at: datetime  # When the process took the lock


async def try_lock(connection: Connection) -> bool:
    """Take the broker lock for this connection. Return False if another session has the lock."""
    cursor = await connection.execute(query("ownership", "try_lock"))
    row = await cursor.fetchone()
    return bool(row and row[0])


async def end_own_holder(connection: Connection, pids: Sequence[int]) -> bool:
    """Terminate the backend that has the lock. Do nothing and return False if the backend's pid is not in `pids`."""
    cursor = await connection.execute(query("ownership", "end_own_holder"), {"pids": list(pids)})
    return await cursor.fetchone() is not None


async def name_broker(connection: Connection, *, host: str, pid: int, http_url: str, pulsar_url: str) -> None:
    """Record that this process has the lock."""
    await connection.execute(
        query("ownership", "name_broker"),
        {"host": host, "pid": pid, "http_url": http_url, "pulsar_url": pulsar_url},
    )


async def stopped(connection: Connection, *, host: str, pid: int) -> None:
    """Record a clean stop and release the lock."""
    await connection.execute(query("ownership", "stopped"), (pid, host))
    await connection.execute(query("ownership", "unlock"))


async def seen(connection: Connection) -> float:
    """Record a heartbeat of the broker. Return the seconds since the previous heartbeat."""
    cursor = await connection.execute(query("ownership", "seen"))
    row = await cursor.fetchone()
    return float(row[0]) if row else 0.0


async def holder(connection: Connection) -> Holder | None:
    """Return the process that took the lock most recently, or None."""
    cursor = await connection.execute(query("ownership", "holder"))
    row = await cursor.fetchone()
    return None if row is None else Holder(host=row[0], pid=row[1], started_at=row[2])
