"""Run a broker inside the test's own loop, with fake sinks, a clock that the test may set, and a proxy to PostgreSQL.

`crash` ends a broker as kill -9 would: it flushes nothing and tells nobody; PostgreSQL sees closed sockets.

Over 400 lines: a run and its probes depend on each other.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from select import select
from typing import Any, TypeVar

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from broker.clock import Clock, SystemClock
from broker.conf import BrokerSettings
from broker.core.client_identity import ClientIdentity
from broker.core.entry import FLAG_BATCH
from broker.core.errors import BrokerError
from broker.core.policies import PolicyValue, merged
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.core.topic_name import TopicName
from broker.doors.entry_facts import entry_flags
from broker.log.sends import Receipt, SendRequest
from broker.process.broker import Broker
from broker.producers.key_hash import entry_slot
from broker.producers.producer import Producer
from broker.producers.requests import ProducerRequest
from broker.subscription.consumer import Consumer
from broker.subscription.requests import AckRequest, Delivery, SubscribeRequest
from broker.subscription.subscription import Subscription
from broker.topics.topic import Topic
from tests.support.postgres_proxy import PostgresProxy
from vela.wire.entry import decode_messages, encode_single, parse_header

__all__ = [
    "IDENTITY",
    "BrokerRun",
    "ConsumerProbe",
    "ManualClock",
    "ProducerProbe",
    "empty",
    "eventually",
    "new_run",
    "one_row",
    "payload_of",
    "refusing",
    "rows",
    "running",
]

T = TypeVar("T")
IDENTITY = ClientIdentity(address="127.0.0.1:50000", client_version="test", face="binary")
START_MS = 1_700_000_000_000
_EVERY_S = 0.004
_FEW_BYTES = 64 * 1024


async def eventually(condition: Callable[[], T], what: str, *, timeout_s: float = 8.0) -> T:
    """Wait until the condition is truthy and return its value. Fails with `what` after the timeout."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while True:
        if value := condition():
            return value
        if loop.time() > deadline_s:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain: {what}")
        await asyncio.sleep(_EVERY_S)


def empty(url: str) -> None:
    """Restore a database to the state that the migrations left. This is ten times as fast as a new copy."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        left = connection.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE conname LIKE 'test\\_%'"
        ).fetchall()
        for table, name in left:
            connection.execute(
                SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(Identifier(table), Identifier(name))
            )
        connection.execute("DROP VIEW IF EXISTS vela_entry, vela_read_v1.entries")
        sizes: dict[str, int] = dict(
            connection.execute(
                "SELECT relname, pg_relation_size(oid) FROM pg_class"
                " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname LIKE 'vela%'"
            ).fetchall()
        )
        segments = [name for name in sizes if name.startswith("vela_entry_")]
        connection.execute(SQL("DROP TABLE {}").format(_names(segments)))
        _empty_tables(
            connection, {name: size for name, size in sizes.items() if size and name not in segments}
        )
        connection.execute("SELECT vela_open_segment_v1((extract(epoch FROM now()) * 1000)::bigint)")
        connection.execute("SELECT vela_refresh_entry_views_v1()")


def _empty_tables(connection: psycopg.Connection[Any], sizes: Mapping[str, int]) -> None:
    """Empty the tables: with DELETE if small, because TRUNCATE makes new files for a table and each index."""
    connection.execute("SET session_replication_role = replica")  # foreign keys need no checks: all rows go
    for name, size in sizes.items():
        if size <= _FEW_BYTES:
            connection.execute(SQL("DELETE FROM {}").format(Identifier(name)))
    if large := [name for name, size in sizes.items() if size > _FEW_BYTES]:
        connection.execute(SQL("TRUNCATE {} CASCADE").format(_names(large)))
    connection.execute(
        "SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence"
        " WHERE seqrelid::regclass::text LIKE 'vela%' AND pg_sequence_last_value(seqrelid) IS NOT NULL"
    )


def _names(tables: Iterable[str]) -> Composed:
    return SQL(", ").join(map(Identifier, tables))


def rows(url: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query, over a separate connection that bypasses the proxy."""
    try:
        return _rows(url, sql, parameters)
    # A test ended all connections, including this one, so nothing was committed.
    except psycopg.errors.AdminShutdown:
        return _rows(url, sql, parameters)


@contextmanager
def refusing(url: str, table: str) -> Iterator[None]:
    """Make the database refuse to insert rows into a table and to delete its rows while the block runs."""
    rows(
        url,
        "CREATE FUNCTION test_no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$",
    )
    try:
        rows(
            url,
            f"CREATE TRIGGER test_no BEFORE INSERT OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION test_no()",
        )
        yield
    finally:
        rows(url, "DROP FUNCTION test_no CASCADE")


def _rows(url: str, sql: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
    with _connection(url) as connection:
        cursor = connection.execute(sql.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


_open: dict[str, psycopg.Connection[Any]] = {}  # the connection that `rows` used last, by URL


@contextmanager
def _connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Borrow a connection that stays open, because polls would spend most of their time on new ones.

    Another thread gets a separate connection, because its statement may have to wait for the main thread's next step.
    """
    if threading.current_thread() is not threading.main_thread():
        with psycopg.connect(url, autocommit=True) as own:
            yield own
        return
    connection = _open.get(url)
    if connection is not None and (connection.closed or select([connection.fileno()], [], [], 0)[0]):
        connection.close()  # the server has ended it
        connection = None
    if connection is None:
        while _open:
            _open.popitem()[1].close()
        connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        _open[url] = connection
    yield connection


def one_row(url: str, sql: str, *parameters: object) -> tuple[Any, ...]:
    """Return the only row of a query."""
    (row,) = rows(url, sql, *parameters)
    return row


class ManualClock:
    """A clock that stands still until the test moves it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock forward, or back."""
        self._now_ms += by_ms


def payload_of(data: bytes | memoryview) -> bytes:
    """Return the payload that a test sent, from a stored or delivered entry."""
    return decode_messages(bytes(data), max_message_bytes=1 << 30)[0].payload


class ProducerProbe:
    """A producer's sink that records its calls, and the client's half of a producer."""

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.receipts: list[Receipt] = []
        self.failed: list[tuple[SendRequest, BrokerError]] = []
        self.closed: list[BrokerError | None] = []
        self.alive = True
        self.next_sequence_id = 0

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Record receipts: these sends are durable."""
        self.receipts.extend(receipts)

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Record that a send failed."""
        self.failed.append((request, error))

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """Record that the broker closed the producer."""
        self.closed.append(error)

    async def is_alive(self) -> bool:
        """Return what the test has set."""
        return self.alive

    def send(
        self,
        payload: bytes = b"",
        *,
        messages: int = 1,
        deliver_at_ms: int = 0,
        slot: int | None = None,
        flags: int = 0,
        data: bytes = b"",
    ) -> SendRequest:
        """Send one entry. Without a `payload`, its payload is its sequence id. `slot` is the hash of its key.

        `data` is a whole entry, which is sent unchanged.
        """
        assert self.producer is not None
        request = SendRequest(
            sequence_id=self.next_sequence_id,
            highest_sequence_id=0,
            messages=messages,
            flags=flags | (FLAG_BATCH if messages > 1 else 0),
            deliver_at_ms=deliver_at_ms,
            key_hash=slot,
            data=data
            or encode_single(
                producer_name=self.producer.name,
                sequence_id=self.next_sequence_id,
                publish_time_ms=0,
                payload=payload or b"%d" % self.next_sequence_id,
            ),
        )
        self.next_sequence_id += 1
        self.producer.send(request)
        return request

    def send_entry(self, data: bytes) -> SendRequest:
        """Send an entry, with the facts from its metadata that a transport reads."""
        assert self.producer is not None
        header = parse_header(data)
        request = SendRequest(
            header.sequence_id, 0, header.messages, entry_flags(header), 0, entry_slot(header), data
        )
        self.producer.send(request)
        return request

    async def publish(self, count: int, *, messages: int = 1) -> list[Position]:
        """Send `count` entries, wait for their receipts, and return their positions."""
        before = len(self.receipts)
        for _ in range(count):
            self.send(messages=messages)
        await self.has_receipts(before + count)
        return [Position(each.ledger_id, each.entry_id) for each in self.receipts[before:]]

    async def has_receipts(self, count: int) -> None:
        """Wait for this many receipts in total."""
        await eventually(lambda: len(self.receipts) >= count, f"{count} receipts")


class ConsumerProbe:
    """A consumer's sink that records its calls, and the client's half of a consumer."""

    def __init__(self, *, acks: bool = False) -> None:
        self.consumer: Consumer | None = None
        self.deliveries: list[Delivery] = []
        self.closed: list[str] = []
        self.ends = 0  # how often the broker said that the topic has ended
        self.connection_closed: list[str] = []
        self.active: list[bool] = []  # each notification of Failover
        self.writable = True
        self.alive = True
        self.acks = acks  # whether `deliver` acks at once and grants the permits again

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Record deliveries."""
        self.deliveries.extend(deliveries)
        if self.acks and self.consumer is not None:
            self.consumer.ack([AckRequest(_position(each)) for each in deliveries], cumulative=False)
            self.consumer.flow(sum(each.entry.messages for each in deliveries))

    def is_writable(self) -> bool:
        """Return what the test has set."""
        return self.writable

    def on_end_of_topic(self) -> None:
        """Record that the topic has ended."""
        self.ends += 1

    def on_consumer_closed(self, reason: str) -> None:
        """Record that the broker closed the consumer."""
        self.closed.append(reason)

    def close_connection(self, reason: str) -> None:
        """Record that the broker closes the connection, and with it the consumer."""
        self.connection_closed.append(reason)

    def on_active_change(self, is_active: bool) -> None:
        """Record whether this consumer is the active one."""
        self.active.append(is_active)

    async def is_alive(self) -> bool:
        """Return what the test has set."""
        return self.alive

    @property
    def positions(self) -> list[Position]:
        """The positions of all deliveries, in order."""
        return [_position(each) for each in self.deliveries]

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of all deliveries, in order."""
        return [payload_of(each.entry.data) for each in self.deliveries]

    def flow(self, permits: int) -> None:
        """Grant permits."""
        assert self.consumer is not None
        self.consumer.flow(permits)

    def ack(self, *positions: Position, cumulative: bool = False) -> None:
        """Ack without asking for a receipt."""
        assert self.consumer is not None
        self.consumer.ack([AckRequest(position) for position in positions], cumulative=cumulative)

    async def ack_durably(
        self, *positions: Position, cumulative: bool = False, remaining: int | None = None
    ) -> BrokerError | None:
        """Ack and wait for the receipt. Return its error, or None if the ack is stored."""
        assert self.consumer is not None
        answers: list[BrokerError | None] = []
        self.consumer.ack(
            [AckRequest(position, remaining) for position in positions],
            cumulative=cumulative,
            on_durable=answers.append,
        )
        await eventually(lambda: answers, "an ack receipt")
        assert len(answers) == 1
        return answers[0]

    async def has(self, count: int) -> None:
        """Wait for this many deliveries in total."""
        await eventually(
            lambda: len(self.deliveries) >= count,
            f"{count} deliveries, {len(self.deliveries)} before the wait",
        )


def _position(delivery: Delivery) -> Position:
    return Position(delivery.entry.ledger_id, delivery.entry.entry_id)


@dataclass(kw_only=True)
class BrokerRun:
    """One run of a broker, from its start to its end. It reaches PostgreSQL only through its proxy."""

    database_url: str
    proxy: PostgresProxy
    clock: Clock
    settings: BrokerSettings
    broker: Broker
    tasks_before: set[asyncio.Task[Any]] = field(default_factory=set)

    async def start(self) -> None:
        """Start the broker."""
        self.tasks_before = asyncio.all_tasks()
        await self.broker.start()

    async def stop(self) -> None:
        """Stop the broker cleanly."""
        await self.broker.stop()
        await self.proxy.stop()

    async def crash(self) -> None:
        """Crash as with kill -9: tasks end where they are, sockets close, nothing is flushed."""
        self.broker.ownership.is_held = False
        self.broker.deadlines.stop()
        self.broker.parked_pulls.stop()
        mine = [each for each in asyncio.all_tasks() - self.tasks_before if _is_brokers(each)]
        for task in mine:
            task.cancel()
        await self.proxy.stop()
        await asyncio.gather(*mine, return_exceptions=True)
        broker = self.broker
        if broker.ownership._connection is not None:
            await broker.ownership._connection.close()
        for pool in (broker.pool, broker.flusher._pool, broker.reporter._pool, broker._heartbeat._pool):
            await pool.close()

    async def producer(self, topic: str = "t", name: str | None = None, **request: Any) -> ProducerProbe:
        """Open a producer."""
        return await self.open(ProducerProbe(), topic, name, **request)

    async def open(
        self, probe: ProducerProbe, topic: str = "t", name: str | None = None, **request: Any
    ) -> ProducerProbe:
        """Open a producer with this sink."""
        probe.producer = await self.broker.open_producer(
            ProducerRequest(topic=TopicName.parse(topic), name=name, **request), IDENTITY, probe
        )
        return probe

    async def policies(self, topic: str = "t", **values: PolicyValue) -> Topic:
        """Create the topic, with these policies stored and in force."""
        found = await self.broker.topics.open(TopicName.parse(topic), create=True)
        rows(
            self.database_url,
            "UPDATE vela_topic SET policies = %s WHERE id = %s",
            json.dumps(values),
            found.topic_id,
        )
        found.set_policies(merged(found.policies, values))
        return found

    async def consumer(
        self,
        topic: str = "t",
        subscription: str = "s",
        type_: SubscriptionType = SubscriptionType.SHARED,
        *,
        permits: int = 0,
        acks: bool = False,
        name: str = "c",
        **request: Any,
    ) -> ConsumerProbe:
        """Subscribe, from the earliest message unless said otherwise, and grant permits."""
        probe = ConsumerProbe(acks=acks)
        await self.attach(probe, topic, subscription, type_, name=name, **request)
        if permits:
            probe.flow(permits)
        return probe

    async def attach(
        self,
        probe: ConsumerProbe,
        topic: str = "t",
        subscription: str = "s",
        type_: SubscriptionType = SubscriptionType.SHARED,
        *,
        name: str = "c",
        identity: ClientIdentity = IDENTITY,
        **request: Any,
    ) -> Consumer:
        """Subscribe with this sink."""
        request.setdefault("earliest", True)
        probe.consumer = await self.broker.subscribe(
            SubscribeRequest(
                topic=TopicName.parse(topic),
                subscription=subscription,
                type=type_,
                consumer_name=name,
                **request,
            ),
            identity,
            probe,
        )
        return probe.consumer

    def metrics_text(self) -> str:
        """Return the text of the page /metrics."""
        return b"".join(self.broker.metrics_page()).decode()

    def topic(self, topic: str = "t") -> Topic:
        """Return a topic that this broker has loaded."""
        return self.broker.topics.loaded[TopicName.parse(topic).full]

    def subscription(self, topic: str = "t", subscription: str = "s") -> Subscription:
        """Return a subscription of a topic that this broker has loaded."""
        return self.topic(topic).subscriptions[subscription]

    async def flushed(self) -> None:
        """Store every ack so far."""
        await self.broker.flusher.flush_now()


def _is_brokers(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "/broker/" in code.co_filename


# Nothing is trimmed unless a test asks for it.
_ENVIRONMENT = {
    "VELA_LOCK_WAIT_S": "10",  # PostgreSQL releases a crashed broker's lock only when it notices the closed socket
    "VELA_LEDGER_MIN_AGE_S": "0",
    "VELA_LIFETIME_CHECK_S": "3600",
}


async def new_run(database_url: str, *, clock: Clock | None = None, **settings: Any) -> BrokerRun:
    """Return a broker that is not started yet, with a new proxy."""
    proxy = PostgresProxy(database_url)
    await proxy.start()
    clock = clock or SystemClock()
    chosen = replace(BrokerSettings.from_environment(_ENVIRONMENT), **settings)
    return BrokerRun(
        database_url=database_url,
        proxy=proxy,
        clock=clock,
        settings=chosen,
        broker=Broker(chosen, proxy.url, clock=clock),
    )


@asynccontextmanager
async def running(
    database_url: str, *, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[BrokerRun]:
    """Run a broker, and crash it at the end. A clean stop is tested elsewhere."""
    run = await new_run(database_url, clock=clock, **settings)
    try:
        await run.start()
        yield run
    finally:
        await run.crash()
