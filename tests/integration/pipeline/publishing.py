"""Store entries as the broker does: in ledgers of a topic over segments, with running counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from broker.storage.log.pieces import divided
from pipeline.checksum import Checksum, message_digest
from vela.wire.entry import Compression, OutgoingMessage, encode_batch, encode_single, parse_header

__all__ = [
    "BETWEEN_APPENDS_MS",
    "PUBLISH_TIME_MS",
    "StoredTopic",
    "create_partitioned",
    "create_subscription",
    "create_topic",
    "open_segment",
    "trim_first_ledger",
]

PUBLISH_TIME_MS = 1_760_000_000_123
BETWEEN_APPENDS_MS = 10


@dataclass(slots=True, kw_only=True)
class StoredTopic:
    """A topic in a database without a broker. `expected` gets the digest of each published message."""

    url: str
    topic_id: int
    name: str
    expected: list[int] = field(default_factory=list)  # message digests
    ledger_id: int = -1
    segment_id: int = -1
    entries: int = 0  # of the open ledger
    messages: int = 0  # of the topic so far
    size_bytes: int = 0  # of the topic so far
    ledger_start: tuple[int, int] = (0, 0)  # (messages, bytes) in ledgers before the open one
    sequence_id: int = 0
    append_ms: int = PUBLISH_TIME_MS  # of the next entry

    @property
    def checksum(self) -> Checksum:
        """The checksum of everything published."""
        return Checksum.of_digests(self.expected)

    def open_ledger(self, segment_id: int) -> None:
        """Seal the open ledger, if there is one, and open another in a segment."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "UPDATE vela_ledger SET state = 'sealed', entries = %s, messages = %s, size_bytes = %s,"
                " last_append_ms = %s WHERE id = %s",
                (
                    self.entries,
                    self.messages - self.ledger_start[0],
                    self.size_bytes - self.ledger_start[1],
                    self.append_ms - BETWEEN_APPENDS_MS,
                    self.ledger_id,
                ),
            )
            row = connection.execute(
                "INSERT INTO vela_ledger (topic_id, segment_id, state, entries, messages, size_bytes, entries_before,"
                " messages_before, bytes_before, opened_ms, first_append_ms, last_append_ms)"
                " VALUES (%s, %s, 'open', 0, 0, 0, 0, %s, %s, 0, 0, 0) RETURNING id",
                (self.topic_id, segment_id, self.messages, self.size_bytes),
            ).fetchone()
        assert row is not None
        self.ledger_id, self.segment_id = row[0], segment_id
        self.ledger_start, self.entries = (self.messages, self.size_bytes), 0

    def publish(
        self, message: OutgoingMessage, compression: Compression = Compression.NONE
    ) -> tuple[int, int]:
        """Publish one message as an entry and return (ledger, entry)."""
        self._expect([message])
        data = encode_single(
            producer_name="maker",
            sequence_id=self.sequence_id,
            publish_time_ms=PUBLISH_TIME_MS,
            payload=message.payload,
            properties=message.properties,
            key=message.key,
            event_time_ms=message.event_time_ms,
            compression=compression,
        )
        return self.store([data])

    def publish_batch(
        self, messages: list[OutgoingMessage], compression: Compression = Compression.NONE
    ) -> tuple[int, int]:
        """Publish the messages as one batch and return (ledger, entry)."""
        self._expect(messages)
        data = encode_batch(
            messages,
            producer_name="maker",
            sequence_id=self.sequence_id,
            publish_time_ms=PUBLISH_TIME_MS,
            compression=compression,
        )
        return self.store([data])

    def _expect(self, messages: list[OutgoingMessage]) -> None:
        self.expected += [
            message_digest(
                each.payload,
                None if each.key is None else each.key.encode(),
                each.properties,
                each.event_time_ms,
            )
            for each in messages
        ]

    def store(self, entries: list[bytes], *, messages: int | None = None) -> tuple[int, int]:
        """Store these bytes as entries, sound or not, and return (ledger, entry) of the first."""
        first = self.entries
        table = sql.Identifier(f"vela_entry_{self.segment_id}")
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            columns = sql.SQL(
                "COPY {} (ledger_id, entry_id, messages, flags, append_ms, deliver_at_ms,"
                " cumulative_messages, cumulative_bytes, rest_bytes, data) FROM STDIN (FORMAT BINARY)"
            )
            rest: list[tuple[int, int, int, bytes]] = []
            with cursor.copy(columns.format(table)) as copy:
                copy.set_types(
                    ["int8", "int8", "int4", "int2", "int8", "int8", "int8", "int8", "int4", "bytea"]
                )
                for data in entries:
                    head, pieces = divided(data)
                    rest += [(self.ledger_id, self.entries, n, bytes(each)) for n, each in enumerate(pieces)]
                    count = parse_header(data).messages if messages is None else messages
                    self.messages += count
                    self.size_bytes += len(data)
                    self.sequence_id += count
                    copy.write_row(
                        (
                            self.ledger_id,
                            self.entries,
                            count,
                            0,
                            self.append_ms,
                            0,
                            self.messages,
                            self.size_bytes,
                            len(data) - len(head),
                            bytes(head),
                        )
                    )
                    self.entries += 1
                    self.append_ms += BETWEEN_APPENDS_MS
            table = sql.Identifier(f"vela_entry_{self.segment_id}_rest")
            with cursor.copy(sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(table)) as copy:
                copy.set_types(["int8", "int8", "int4", "bytea"])
                for row in rest:
                    copy.write_row(row)
        return self.ledger_id, first


def open_segment(url: str) -> int:
    """Create a segment that the views include, and return its id."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT vela_open_segment_v1(1)").fetchone()
        connection.execute("SELECT vela_refresh_entry_views_v1()")
    assert row is not None
    return int(row[0])


def create_topic(
    url: str, name: str, *, partitions: int = 0, parent_id: int | None = None, partition: int = -1
) -> StoredTopic:
    """Create a topic in public/default."""
    full = f"persistent://public/default/{name}"
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO vela_tenant (name, created_at) VALUES ('public', now()) ON CONFLICT DO NOTHING"
        )
        connection.execute(
            "INSERT INTO vela_namespace (tenant_id, name, policies, created_at)"
            " SELECT id, 'default', '{}', now() FROM vela_tenant WHERE name = 'public' ON CONFLICT DO NOTHING"
        )
        row = connection.execute(
            "INSERT INTO vela_topic (namespace_id, name, partitions, parent_id, partition, properties, policies,"
            " created_at) SELECT n.id, %s, %s, %s, %s, '{}', '{}', now()"
            " FROM vela_namespace n JOIN vela_tenant t ON t.id = n.tenant_id"
            " WHERE n.name = 'default' AND t.name = 'public' RETURNING id",
            (full, partitions, parent_id, partition),
        ).fetchone()
    assert row is not None
    return StoredTopic(url=url, topic_id=row[0], name=full)


def create_partitioned(url: str, name: str, partitions: int) -> list[StoredTopic]:
    """Create a partitioned topic and return its partitions."""
    parent = create_topic(url, name, partitions=partitions)
    return [
        create_topic(url, f"{name}-partition-{index}", parent_id=parent.topic_id, partition=index)
        for index in range(partitions)
    ]


def create_subscription(topic: StoredTopic, name: str, *, last_acked: int) -> None:
    """Create a subscription that has acked the open ledger up to an entry."""
    with psycopg.connect(topic.url) as connection:
        connection.execute(
            "WITH s AS (INSERT INTO vela_subscription (topic_id, name, type, properties, created_at)"
            " VALUES (%s, %s, 'Shared', '{}', now()) RETURNING id)"
            " INSERT INTO vela_cursor (subscription_id, mark_delete_ledger, mark_delete_entry, acked_messages,"
            " acked_entries, acked_bytes, version) SELECT id, %s, %s, 0, 0, 0, 0 FROM s",
            (topic.topic_id, name, topic.ledger_id, last_acked),
        )


def trim_first_ledger(topic: StoredTopic) -> None:
    """Trim the topic's oldest ledger, as retention does: delete its row. Its entries stay as long as their segment."""
    with psycopg.connect(topic.url) as connection:
        connection.execute(
            "DELETE FROM vela_ledger WHERE id = (SELECT min(id) FROM vela_ledger WHERE topic_id = %s)",
            (topic.topic_id,),
        )
