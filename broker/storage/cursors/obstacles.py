"""Store, for the console, what delays each subscription's deliveries, and which consumer left last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = ["DepartureRow", "ObstaclesRow", "broker_ended", "upsert_departures", "upsert_obstacles"]


class ObstaclesRow(NamedTuple):
    """Columns of vela_subscription_obstacles, in order."""

    subscription_id: int
    blocked: bool
    rate_limited: bool
    gap: str
    read_fault: str
    active_consumer: int
    first_redeliveries: int
    key_slot: int
    key_consumer: int
    key_waiting_entries: int
    key_is_draining: bool


class DepartureRow(NamedTuple):
    """Columns of vela_consumer_departure, in order."""

    subscription_id: int
    name: str
    address: str
    client_version: str
    cause: str
    detail: str
    connected_ms: int
    left_ms: int


async def upsert_obstacles(connection: Connection, rows: Sequence[ObstaclesRow]) -> None:
    """Store these rows, except those of deleted subscriptions."""
    if rows:
        await connection.execute(query("obstacles", "upsert_obstacles"), _columns(rows))


async def upsert_departures(connection: Connection, rows: Sequence[DepartureRow]) -> None:
    """Store these rows, except those of deleted subscriptions. Pass at most one row for each subscription."""
    if rows:
        await connection.execute(query("obstacles", "upsert_departures"), _columns(rows))


async def broker_ended(connection: Connection) -> None:
    """Store a departure for the latest consumer session of each subscription, and delete all obstacles.

    These sessions and obstacles are from an earlier broker. A broker calls this function when it starts, before
    `sessions.forget_all` deletes the sessions.
    """
    await connection.execute(query("obstacles", "broker_ended"))


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
