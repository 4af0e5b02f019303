"""The sink's lanes: sending rows, repeating them after lost connections, and refusals."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import operator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BrokerUnavailable, DeduplicationOff
from pipeline.sink import lanes as lanes_module
from pipeline.sink.lanes import Lanes
from pipeline.sink.options import WriteOptions
from pipeline.sink.rows import Row
from pipeline.sink.stored_schemas import EncodedSchema
from vela.aio import Client
from vela.core.producing.batching import Batch, Batching, BatchLimits, SequenceIds
from vela.core.producing.outgoing import Outgoing
from vela.errors import AlreadyClosed, AuthenticationError, IncompatibleSchema, NotAllowedError, ProducerBusy
from vela.wire.binary.schema import Schema

Sent = tuple[bytes, asyncio.Future[None]]
TOPIC = "persistent://public/default/t"


class FakeBroker:
    """A broker. With `deduplicates`, it drops repeated entries."""

    def __init__(self, partitions: int = 1, *, deduplicates: bool = True) -> None:
        self.partitions = partitions
        self.deduplicates = deduplicates
        self.entries: list[tuple[str, list[bytes]]] = []
        self.schemas: list[bytes] = []  # the definition with which each entry was written
        self.refused_schemas: set[bytes] = set()
        self.last: dict[tuple[str, str], int] = {}
        self.refused_entries: set[int] = set()  # by the order in which entries are sent
        self.not_deduplicating = "this topic does not deduplicate, and the producer requires it"
        self.refuses_producers = False
        self.busy = 0  # how many more producers the broker refuses because their name is taken
        self.sent = 0
        self.max_message_bytes = 1 << 20
        self._producers: list[FakeProducer] = []

    @property
    def stored(self) -> list[bytes]:
        return [value for _, values in self.entries for value in values]

    # --- as a client

    async def get_topic_partitions(self, topic: str) -> list[str]:
        return [f"{topic}-partition-{n}" for n in range(self.partitions)] if self.partitions > 1 else [topic]

    async def get_or_create_schema(self, topic: str, schema: Schema) -> bytes:
        if schema.data in self.refused_schemas:
            raise IncompatibleSchema("it cannot read version 0")
        return b""

    async def create_producer(
        self, topic: str, name: str, schema: EncodedSchema | None, **options: Any
    ) -> FakeProducer:
        if self.busy:
            self.busy -= 1
            raise ProducerBusy("the name is taken")
        if options["properties"] and not self.deduplicates:
            raise NotAllowedError(self.not_deduplicating)
        if self.refuses_producers:
            raise NotAllowedError("it takes no producers")
        definition = None if schema is None else schema.schema_info().to_wire()
        self._producers.append(FakeProducer(self, topic, name, definition.data if definition else b""))
        return self._producers[-1]

    async def connection_for(self, topic: str) -> FakeBroker:
        return self

    def release(self, connection: FakeBroker) -> None:
        """Do nothing: the lanes use a connection only to ask for its limit."""

    async def close(self) -> None:
        for producer in self._producers:
            await producer.close()


class FakeProducer:
    """A producer that cuts entries with the client's own code."""

    def __init__(self, broker: FakeBroker, topic: str, name: str, definition: bytes) -> None:
        self._broker = broker
        self._definition = definition
        self._topic, self._name = topic, name
        limits = BatchLimits(max_messages=1 << 20, max_bytes=broker.max_message_bytes // 2)
        self._batching: Batching[Sent] = Batching(limits, SequenceIds(self.last_sequence_id() + 1))
        self._sealed: list[Batch[Sent]] = []
        self._flushing = asyncio.Lock()
        self._is_closed = False

    def last_sequence_id(self) -> int:
        return self._broker.last.get((self._topic, self._name), -1) if self._broker.deduplicates else -1

    def send_async(
        self,
        value: bytes,
        properties: dict[str, str] | None,
        key: str | None,
        *,
        sequence_id: int,
        **_: object,
    ) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_exception(AlreadyClosed("the producer is closed"))
            return future
        message = Outgoing(value, properties or {}, key, sequence_id=sequence_id)
        if not self._batching.fits(message):
            self._sealed += self._batching.take()
        if self._batching.add(message, (value, future)):
            self._sealed += self._batching.take()
        return future

    async def flush(self) -> None:
        assert not self._flushing.locked(), "an entry was sent before the one before it was stored"
        if self._is_closed:
            raise AlreadyClosed("the producer is closed")
        await self._flush()

    async def _flush(self) -> None:
        entries, self._sealed = [*self._sealed, *self._batching.take()], []
        async with self._flushing:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        # A real client, too, has sent all entries before an answer comes.
        failures = [self._store(entry) for entry in entries]
        for error in filter(None, failures):
            raise error

    def _store(self, entry: Batch[Sent]) -> NotAllowedError | None:
        number, self._broker.sent = self._broker.sent, self._broker.sent + 1
        if number in self._broker.refused_entries:
            error = NotAllowedError("too large")
            for _, future in entry.tokens:
                future.set_exception(error)
            return error
        self._broker.entries.append((self._topic, [value for value, _ in entry.tokens]))
        self._broker.schemas.append(self._definition)
        self._broker.last[self._topic, self._name] = entry.last_sequence_id
        for _, future in entry.tokens:
            future.set_result(None)
        return None

    async def close(self) -> None:
        """Send the gathered messages, as the client does, and report no failure."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.suppress(NotAllowedError):
                await self._flush()


def write(broker: FakeBroker, rows: list[Row], *, must_deduplicate: bool = True, **options: str) -> int:
    """Write the rows as one task does, and return how many of them had been stored before."""

    async def run() -> int:
        lanes = Lanes(
            cast(Client, broker),
            WriteOptions.parse({"serviceUrl": "pulsar://x", **options}),
            producer_name="spark-0",
            must_deduplicate=must_deduplicate,
            offset=0,
        )
        try:
            for number, row in enumerate(rows):
                await lanes.add(row, TOPIC, number)
            await lanes.finish()
        finally:
            await broker.close()
        return lanes.repeated

    return asyncio.run(run())


def rows_of(count: int, *, keyed: bool = False, size: int = 0) -> list[Row]:
    return [
        Row(b"%d" % number + b"." * size, f"k{number}" if keyed else None, None, None, None)
        for number in range(count)
    ]


def test_entries_are_full_and_in_order() -> None:
    broker = FakeBroker()
    assert write(broker, rows_of(25), batchRows="10") == 0
    assert [len(values) for _, values in broker.entries] == [10, 10, 5]
    assert broker.stored == [row.value for row in rows_of(25)]
    large = FakeBroker()
    write(large, rows_of(5, size=900), batchBytes="2048")
    assert [len(values) for _, values in large.entries] == [2, 2, 1]


@given(
    count=st.integers(1, 40),
    partitions=st.integers(1, 3),
    keyed=st.booleans(),
    refused=st.lists(st.integers(0, 12), max_size=4, unique=True),
    sizes=st.lists(st.integers(1, 9), min_size=6, max_size=6),
)
def test_every_row_is_stored_once_however_often_the_task_fails(
    count: int, partitions: int, keyed: bool, refused: list[int], sizes: list[int]
) -> None:
    broker = FakeBroker(partitions)
    broker.refused_entries = set(refused)
    rows = rows_of(count, keyed=keyed)
    for size in sizes:  # attempts, which cut entries of different sizes
        with contextlib.suppress(BrokerUnavailable):
            write(broker, rows, batchRows=str(size))
            break
    assert sorted(broker.stored) == sorted(row.value or b"" for row in rows)
    assert write(broker, rows, batchRows="7") == count


def test_rows_after_an_entry_that_failed_are_not_stored() -> None:
    broker = FakeBroker()
    broker.refused_entries = {1}
    with pytest.raises(BrokerUnavailable, match="too large"):
        # When the second entry fails, the rows of the third one have already been added.
        write(broker, rows_of(29), batchRows="10")
    assert broker.stored == [row.value for row in rows_of(10)]
    assert write(broker, rows_of(29), batchRows="10") == 10
    assert broker.stored == [row.value for row in rows_of(29)]


@given(
    texts=st.lists(
        st.builds(operator.mul, st.sampled_from("aü€"), st.integers(0, 300)), min_size=1, max_size=12
    ),
    has_properties=st.booleans(),
    refused=st.integers(0, 5),
)
def test_the_client_never_cuts_an_entry(texts: list[str], has_properties: bool, refused: int) -> None:
    """Otherwise the client would send both pieces at once, and the broker could store only the second one."""
    broker = FakeBroker()
    broker.max_message_bytes = 2048
    broker.refused_entries = {refused}
    rows = [
        Row(b"%d" % n, text, None, None, {text: text} if has_properties else None)
        for n, text in enumerate(texts)
    ]
    with contextlib.suppress(BrokerUnavailable):
        write(broker, rows, batchBytes=str(1 << 20))
    assert broker.stored == [row.value for row in rows[: len(broker.stored)]]
    write(broker, rows, batchBytes=str(1 << 20))
    assert broker.stored == [row.value for row in rows]


def test_a_topic_without_deduplication_is_refused_before_the_first_row() -> None:
    broker = FakeBroker(deduplicates=False)
    with pytest.raises(DeduplicationOff, match=r"set its policy deduplication.* Nothing was stored in it"):
        write(broker, rows_of(30), batchRows="10")
    assert broker.entries == []
    write(broker, rows_of(30), batchRows="10", must_deduplicate=False)
    assert len(broker.entries) == 3


def test_a_refusal_for_deduplication_is_told_from_others_whatever_the_broker_says() -> None:
    broker = FakeBroker(deduplicates=False)
    broker.not_deduplicating = "the topic keeps repeats"
    with pytest.raises(DeduplicationOff):
        write(broker, rows_of(1))
    broker.refuses_producers = True  # now it also refuses producers without the requirement
    with pytest.raises(BrokerUnavailable, match="it takes no producers"):
        write(broker, rows_of(1))
    assert broker.entries == []


SCHEMAS = json.dumps(
    {number: {"type": 4, "definition": base64.b64encode(b"v%d" % number).decode()} for number in (0, 1)}
)


@given(
    versions=st.lists(st.sampled_from((None, 0, 1, 7)), min_size=1, max_size=30),
    refused=st.lists(st.integers(0, 12), max_size=4, unique=True),
    sizes=st.lists(st.integers(1, 9), min_size=6, max_size=6),
)
def test_rows_keep_their_schema_and_their_order(
    versions: list[int | None], refused: list[int], sizes: list[int]
) -> None:
    broker = FakeBroker()
    broker.refused_entries = set(refused)
    rows = [
        Row(b"%d" % n, None, None, None, None, schema_version=version) for n, version in enumerate(versions)
    ]
    for size in sizes:
        with contextlib.suppress(BrokerUnavailable):
            write(broker, rows, batchRows=str(size), schemas=SCHEMAS)
            break
    assert write(broker, rows, schemas=SCHEMAS) == len(rows)
    assert broker.stored == [row.value for row in rows]
    written = [
        schema for schema, (_, values) in zip(broker.schemas, broker.entries, strict=True) for _ in values
    ]
    assert written == [
        {0: b"v0", 1: b"v1"}.get(-1 if version is None else version, b"") for version in versions
    ]


def test_a_schema_that_the_topic_refuses_stores_nothing() -> None:
    broker = FakeBroker()
    broker.refused_schemas = {b"v1"}
    rows = [Row(b"a", None, None, None, None, schema_version=version) for version in (0, 1)]
    with pytest.raises(BrokerUnavailable, match="IncompatibleSchema: it cannot read version 0"):
        write(broker, rows, schemas=SCHEMAS)
    assert broker.entries == []


def test_a_broker_that_asks_for_credentials_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> list[str]:
        raise AuthenticationError("this broker asks for credentials")

    broker = FakeBroker()
    monkeypatch.setattr(broker, "get_topic_partitions", refuse)
    with pytest.raises(BrokerUnavailable, match="asks for credentials; set option token or tokenFile"):
        write(broker, rows_of(1))


def test_a_task_waits_for_an_earlier_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_BUSY_PAUSE_S", 0.0)
    broker = FakeBroker()
    broker.busy = 3
    write(broker, rows_of(3))
    assert len(broker.stored) == 3
    monkeypatch.setattr(lanes_module, "_BUSY_TIMEOUT_S", -1.0)
    broker.busy = 1
    with pytest.raises(BrokerUnavailable, match="ProducerBusy: the name is taken"):
        write(broker, rows_of(3))
