"""Topics, ledgers, segments and owner epochs in PostgreSQL.

A segment is a pair of tables with the entries of many ledgers. A topic's owner epoch rises when another broker
process becomes the topic's owner, and when the owner calls `advance_epochs`. Writes with an older epoch change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import psycopg
from psycopg import sql

from broker.core.ledgers.ledger import LedgerInfo
from broker.core.topic_name import TopicName
from broker.storage.connection import Connection
from broker.storage.queries import query

__all__ = [
    "LedgerRoll",
    "LedgerRow",
    "TopicRow",
    "advance_epochs",
    "close_older_segments",
    "close_segment",
    "create_namespace",
    "create_topic",
    "find_topic",
    "insert_partitions",
    "ledgers_of",
    "names_in_namespace",
    "newest_segment",
    "open_segment",
    "owned",
    "refresh_entry_views",
    "roll_ledgers",
    "segment_size_bytes",
    "set_producer_epoch",
    "take_topics",
    "topic_of_ledger",
]


_TAKE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A stored topic."""

    topic_id: int
    partitions: int  # 0 means not a partitioned topic
    partition: int  # -1 means the topic's name has no partition number
    terminated: bool
    # The stored policies are not validated. A partition has the topic policies of its partitioned topic.
    namespace_policies: Mapping[str, object]
    topic_policies: Mapping[str, object]
    last_used_ms: int  # 0 means unknown
    producer_epoch: int | None  # Epoch of the last exclusive producer
    has_deduplication: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A stored ledger. `entries`, `messages`, `size_bytes` and the append times are 0 until the ledger is sealed."""

    ledger_id: int
    segment_id: int | None  # None means the ledger is in a file, or is sealed and empty
    sealed: bool
    entries: int
    messages: int
    size_bytes: int
    entries_before: int
    messages_before: int
    bytes_before: int
    opened_ms: int
    first_append_ms: int
    last_append_ms: int
    file_name: str | None  # None means not offloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRoll:
    """A request to seal a topic's open ledger and create the next ledger."""

    topic_id: int
    sealing: LedgerInfo | None  # The open ledger, if any
    entries_before: int  # Entries of the topic before the next ledger, including trimmed entries
    messages_before: int
    bytes_before: int


async def find_topic(connection: Connection, name: TopicName) -> TopicRow | None:
    """Return the row of a topic, if the topic exists."""
    cursor = await connection.execute(query("topics", "find_topic"), (name.full,))
    row = await cursor.fetchone()
    if row is None:
        return None
    return TopicRow(
        topic_id=row[0],
        partitions=row[1],
        partition=row[2],
        terminated=row[3],
        namespace_policies=row[4],
        topic_policies=row[5],
        last_used_ms=row[6],
        producer_epoch=row[7],
        has_deduplication=row[8],
    )


async def create_namespace(
    connection: Connection, tenant: str, namespace: str, policies: Mapping[str, object]
) -> None:
    """Create a namespace and its tenant. Safe to repeat: existing rows do not change."""
    await connection.execute(query("topics", "create_tenant"), (tenant,))
    await connection.execute(query("topics", "create_namespace"), (namespace, json.dumps(policies), tenant))


async def create_topic(
    connection: Connection,
    name: TopicName,
    *,
    partitions: int,
    policies: Mapping[str, object],
    properties: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Create a topic, its partitions, and any missing tenant and namespace. Safe to repeat.

    An existing topic keeps its number of partitions. Raises InvalidTopicName if the name of a partition is too long.
    """
    async with connection.transaction():
        await create_namespace(connection, name.tenant, name.namespace, policies)
        await _insert_topics(
            connection,
            name,
            [name.full],
            [-1 if name.partition is None else name.partition],
            parent=name.base,
            partitions=partitions,
            properties=properties,
        )
        cursor = await connection.execute(query("topics", "partitions_of"), (name.full,))
        if await cursor.fetchone() == (partitions,):
            await insert_partitions(connection, name, range(partitions))


async def insert_partitions(connection: Connection, name: TopicName, indexes: Sequence[int]) -> None:
    """Insert missing partitions of an existing topic.

    An existing topic with a partition's name becomes that partition. Raises InvalidTopicName if a name is too long.
    """
    if indexes:
        name.with_partition(max(indexes))
        names = [f"{name.full}-partition-{index}" for index in indexes]
        await connection.execute(query("topics", "adopt_partitions"), {"parent": name.full, "names": names})
        await _insert_topics(connection, name, names, indexes, parent=name.full, partitions=0, properties={})


async def _insert_topics(
    connection: Connection,
    name: TopicName,
    names: Sequence[str],
    indexes: Sequence[int],
    *,
    parent: str,
    partitions: int,
    properties: Mapping[str, str],
) -> None:
    await connection.execute(
        query("topics", "create_topics"),
        {
            "names": list(names),
            "indexes": list(indexes),
            "partitions": partitions,
            "parent": parent,
            "tenant": name.tenant,
            "namespace": name.namespace,
            "properties": json.dumps(dict(properties)),
        },
    )


async def names_in_namespace(connection: Connection, tenant: str, namespace: str) -> list[str]:
    """Return the sorted full names of a namespace's persistent topics.

    The result contains partitions, but no partitioned topics.
    """
    escaped = (
        f"persistent://{tenant}/{namespace}/".replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    )
    cursor = await connection.execute(query("topics", "namespace_topics"), (escaped + "%",))
    return [row[0] for row in await cursor.fetchall()]


async def take_topics(connection: Connection, topic_ids: Collection[int], *, token: int) -> dict[int, int]:
    """Take ownership of the topics that still exist. Return their new epochs by topic id.

    `token` identifies the new owner. Waits until the earlier owner's last appends have ended.
    """
    parameters = {"topic_ids": list(topic_ids), "token": token}
    for attempt in range(_TAKE_ATTEMPTS):
        try:
            cursor = await connection.execute(query("topics", "take"), parameters)
            return {row[0]: row[1] for row in await cursor.fetchall()}
        except psycopg.errors.ForeignKeyViolation:
            # A topic was deleted while the statement ran. The next try no longer finds that topic.
            if attempt == _TAKE_ATTEMPTS - 1:
                raise
    return {}


async def advance_epochs(connection: Connection, epochs: Mapping[int, int], *, token: int) -> dict[int, int]:
    """Increase the owner epoch of each topic that still has the epoch in `epochs`. Return the new epochs by topic id.

    The owner calls this so that its own earlier statements have no further effect. `token` identifies the owner. Safe
    to repeat with the same token. Waits until earlier statements on the topics have ended.
    """
    cursor = await connection.execute(
        query("topics", "advance_epochs"),
        {"topic_ids": list(epochs.keys()), "epochs": list(epochs.values()), "token": token},
    )
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def owned(connection: Connection, epochs: Mapping[int, int]) -> set[int]:
    """Return the ids of the topics that still have these epochs. The epochs stay locked until the transaction ends."""
    cursor = await connection.execute(
        query("topics", "owned"), {"topic_ids": list(epochs.keys()), "epochs": list(epochs.values())}
    )
    return {row[0] for row in await cursor.fetchall()}


async def set_producer_epoch(
    connection: Connection, *, topic_id: int, owner_epoch: int, producer_epoch: int
) -> bool | None:
    """Store the epoch of the topic's exclusive producer. Safe to repeat.

    Return None if `owner_epoch` is out of date.
    """
    cursor = await connection.execute(
        query("topics", "set_producer_epoch"),
        {"topic_id": topic_id, "owner_epoch": owner_epoch, "producer_epoch": producer_epoch},
    )
    return None if await cursor.fetchone() is None else True


async def ledgers_of(connection: Connection, topic_id: int) -> list[LedgerRow]:
    """Return all ledgers of a topic, oldest first."""
    cursor = await connection.execute(query("topics", "ledgers"), (topic_id,))
    return [
        LedgerRow(
            ledger_id=row[0],
            segment_id=row[1],
            sealed=row[2] == "sealed",
            entries=row[3],
            messages=row[4],
            size_bytes=row[5],
            entries_before=row[6],
            messages_before=row[7],
            bytes_before=row[8],
            opened_ms=row[9],
            first_append_ms=row[10],
            last_append_ms=row[11],
            file_name=row[12],
        )
        for row in await cursor.fetchall()
    ]


async def topic_of_ledger(connection: Connection, ledger_id: int) -> str | None:
    """Return the name of a ledger's topic, if the ledger exists."""
    cursor = await connection.execute(query("topics", "of_ledger"), (ledger_id,))
    row = await cursor.fetchone()
    return None if row is None else str(row[0])


async def roll_ledgers(
    connection: Connection, rolls: Sequence[tuple[LedgerRoll, int]], *, segment_id: int, now_ms: int
) -> dict[int, int]:
    """Seal each topic's open ledger and create the next ledger. Return the new ledger ids by topic id.

    `rolls` pairs each roll with the topic's owner epoch. Topics with another epoch do not change. Safe to repeat.
    """
    sealing = [roll.sealing or LedgerInfo(ledger_id=-1) for roll, _ in rolls]
    cursor = await connection.execute(
        query("topics", "roll_ledgers"),
        {
            "topic_ids": [roll.topic_id for roll, _ in rolls],
            "epochs": [epoch for _, epoch in rolls],
            "ledger_ids": [info.ledger_id for info in sealing],
            "entries": [info.entries for info in sealing],
            "messages": [info.messages for info in sealing],
            "size_bytes": [info.size_bytes for info in sealing],
            "first_append_ms": [info.first_append_ms for info in sealing],
            "last_append_ms": [info.last_append_ms for info in sealing],
            "entries_before": [roll.entries_before for roll, _ in rolls],
            "messages_before": [roll.messages_before for roll, _ in rolls],
            "bytes_before": [roll.bytes_before for roll, _ in rolls],
            "segment_id": segment_id,
            "now_ms": now_ms,
        },
    )
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def newest_segment(connection: Connection) -> tuple[int, int] | None:
    """Return the id of the segment for new ledgers, and its opening time in Unix milliseconds."""
    cursor = await connection.execute(query("topics", "open_segments"))
    row = await cursor.fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


async def open_segment(connection: Connection, now_ms: int) -> int:
    """Create a segment with its two tables. Return the segment's id."""
    cursor = await connection.execute(query("topics", "open_segment"), (now_ms,))
    row = await cursor.fetchone()
    if row is None:
        raise psycopg.InternalError("vela_open_segment_v1 returned nothing")
    return int(row[0])


async def close_segment(connection: Connection, segment_id: int, now_ms: int) -> None:
    """Mark a segment as closed. Safe to repeat."""
    await connection.execute(query("topics", "close_segment"), (now_ms, segment_id))


async def close_older_segments(connection: Connection, open_id: int, now_ms: int) -> None:
    """Close every open segment older than segment `open_id`, except segments for long-lived ledgers."""
    await connection.execute(query("topics", "close_older_segments"), (now_ms, open_id))


async def refresh_entry_views(connection: Connection, *, lock_timeout_ms: int, read_role: str) -> bool:
    """Replace the views that show all entries. Return False if the views stay locked too long. Safe to repeat.

    If `read_role` is not empty, this role gets SELECT on all of Vela's views and tables.
    """
    try:
        async with connection.transaction():
            await connection.execute(
                sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(f"{lock_timeout_ms}ms"))
            )
            await connection.execute(sql.SQL("SET LOCAL vela.read_role = {}").format(sql.Literal(read_role)))
            await connection.execute(query("topics", "refresh_views"))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


async def segment_size_bytes(connection: Connection, segment_id: int) -> int:
    """Return the size of a segment's tables, with their TOAST tables and indexes."""
    cursor = await connection.execute(query("topics", "segment_size"), (segment_id,))
    row = await cursor.fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
