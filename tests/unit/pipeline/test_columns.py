"""Columns for Spark from stored messages: ids, keys, times and payloads, in batches of limited size."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.source.batches import BatchBuilder
from pipeline.source.columns import (
    ARROW_SCHEMA,
    PlainRun,
    Run,
    key_bytes,
    plain_record_batch,
    record_batch,
)
from pipeline.source.ranges import EntryRange
from vela.wire.entry import Message
from vela.wire.errors import MetadataCorrupt
from vela.wire.message_id import MessageId


def message(
    *,
    payload: bytes = b"",
    key: str | None = None,
    key_b64: bool = False,
    event_time_ms: int = 0,
    batch: tuple[int, int] = (-1, 0),
    schema_version: bytes = b"",
) -> Message:
    return Message(
        payload, {}, key, event_time_ms, 1, *batch, 0, "p", None, key_b64, schema_version=schema_version
    )


SOURCE = EntryRange(
    topic="t", partition=3, ledger_id=1 << 40, first=0, last=9, bytes_before=0, bytes_through=1
)


def plain_run(messages: list[Message], entry_id: int) -> PlainRun:
    """Return the messages, which may have only payloads, as arrays."""
    return PlainRun(
        source=SOURCE,
        entry_id=entry_id,
        append_ms=7,
        publish_time_ms=messages[0].publish_time_ms,
        producer_name=messages[0].producer_name,
        schema_version=messages[0].schema_version,
        batch_size=messages[0].batch_size,
        first=0,
        values=pa.array([each.payload for each in messages], pa.binary()),
        sequence_ids=pa.array([each.sequence_id for each in messages], pa.int64()),
    )


@given(sizes=st.lists(st.integers(1, 25), max_size=8), max_rows=st.integers(1, 30), plain=st.data())
def test_plain_runs_give_the_same_columns(sizes: list[int], max_rows: int, plain: st.DataObject) -> None:
    one, other = BatchBuilder(max_rows=max_rows), BatchBuilder(max_rows=max_rows)
    batches: list[list[pa.RecordBatch]] = [[], []]
    for entry_id, size in enumerate(sizes):
        version = plain.draw(st.sampled_from([b"", bytes(7) + b"\x05", b"another broker's"]))
        messages = [
            message(payload=b"%d" % index, batch=(index, size), schema_version=version)
            for index in range(size)
        ]
        run = Run(source=SOURCE, entry_id=entry_id, append_ms=7, messages=messages)
        batches[0] += one.add(run)
        batches[1] += other.add(plain_run(messages, entry_id) if plain.draw(st.booleans()) else run)
    batches[0] += one.rest()
    batches[1] += other.rest()
    assert [batch.to_pylist() for batch in batches[0]] == [batch.to_pylist() for batch in batches[1]]
    assert all(batch.schema == ARROW_SCHEMA for batch in batches[1])


@pytest.mark.parametrize("large", ["payload", "key", "properties"])
def test_a_batch_ends_when_it_is_large_whatever_part_of_its_messages_is(large: str) -> None:
    text = "x" * 600
    sent = {
        "payload": message(payload=text.encode()),
        "key": message(key=text),
        "properties": message()._replace(properties={"name": text}),
    }[large]
    builder = BatchBuilder(max_rows=100, max_bytes=1000)
    batches = [batch for _ in range(5) for batch in builder.add(run_of([sent]))] + list(builder.rest())
    assert [batch.num_rows for batch in batches] == [2, 2, 1]


def test_a_read_may_ask_which_keys_are_binary() -> None:
    keyed = [message(key="YQ==", key_b64=True), message(key="a"), message()]
    assert record_batch([run_of(keyed)], ["__keyIsBinary"]).to_pydict() == {
        "__keyIsBinary": [True, False, None]
    }
    plain = plain_run([message(), message()], 0)
    assert plain_record_batch([plain], ["__keyIsBinary"]).to_pydict() == {"__keyIsBinary": [None, None]}


def run_of(messages: list[Message], *, ledger_id: int = 1, entry_id: int = 0, partition: int = -1) -> Run:
    source = EntryRange(
        topic="t",
        partition=partition,
        ledger_id=ledger_id,
        first=0,
        last=entry_id,
        bytes_before=0,
        bytes_through=1,
    )
    return Run(source=source, entry_id=entry_id, append_ms=7, messages=messages)


@given(
    ledger_id=st.integers(0, 2**63 - 1),
    entry_id=st.integers(0, 2**63 - 1),
    partition=st.integers(-1, 1_000),
    size=st.integers(0, 40),
)
def test_message_ids_equal_those_of_the_protocol(
    ledger_id: int, entry_id: int, partition: int, size: int
) -> None:
    batches = [(index, size) for index in range(size)] or [(-1, 0)]
    run = run_of(
        [message(batch=batch) for batch in batches],
        ledger_id=ledger_id,
        entry_id=entry_id,
        partition=partition,
    )
    ids = record_batch([run]).column("__messageId").to_pylist()
    assert ids == [MessageId(ledger_id, entry_id, partition, index, of).to_bytes() for index, of in batches]


def test_binary_keys_come_as_bytes() -> None:
    assert key_bytes(message()) is None
    assert key_bytes(message(key="ü")) == "ü".encode()
    assert key_bytes(message(key=base64.b64encode(b"\xff\x00").decode(), key_b64=True)) == b"\xff\x00"
    with pytest.raises(MetadataCorrupt):
        key_bytes(message(key="not base64!", key_b64=True))


def test_a_schema_version_is_a_number_or_null() -> None:
    versions = [b"", bytes(8), bytes(6) + b"\x01\x02", b"\xff" * 8, b"longer than a number"]
    batch = record_batch([run_of([message(schema_version=version) for version in versions])])
    assert batch.column("__schemaVersion").to_pylist() == [None, 0, 258, -1, None]


def test_a_time_beyond_sparks_range_is_null() -> None:
    times_ms = [0, 5, -5, 2**63 - 1, (2**63 - 1) // 1000]
    batch = record_batch([run_of([message(event_time_ms=time_ms) for time_ms in times_ms])])
    times = batch.column("__eventTime").cast("int64").to_pylist()
    assert times == [None, 5_000, None, None, (2**63 - 1) // 1000 * 1000]


@given(sizes=st.lists(st.integers(0, 25), max_size=12), max_rows=st.integers(1, 12))
def test_batches_are_bounded_in_rows_and_lose_nothing(sizes: list[int], max_rows: int) -> None:
    builder = BatchBuilder(max_rows=max_rows)
    entries = [
        [message(payload=b"%d-%d" % (entry, index)) for index in range(size)]
        for entry, size in enumerate(sizes)
    ]
    batches = [batch for each in entries for batch in builder.add(run_of(each))] + list(builder.rest())
    assert all(0 < batch.num_rows <= max_rows for batch in batches)
    assert all(batch.schema == ARROW_SCHEMA for batch in batches)
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert values == [each.payload for entry in entries for each in entry]


def test_batches_are_bounded_in_bytes() -> None:
    builder = BatchBuilder(max_rows=10_000, max_bytes=1_000)
    taken = [list(builder.add(run_of([message(payload=bytes(400))]))) for _ in range(7)]
    assert [len(each) for each in taken] == [0, 0, 1, 0, 0, 1, 0]
    assert [batch.num_rows for batch in builder.rest()] == [1]
    assert list(builder.rest()) == []


def test_only_requested_columns_are_built() -> None:
    batch = record_batch([run_of([message(payload=b"x")])], ["__appendTime", "value"])
    assert batch.schema.names == ["__appendTime", "value"]
    assert batch.column("__appendTime").cast("int64").to_pylist() == [7_000]


def test_a_null_value_is_null_and_not_empty() -> None:
    deleted = message()._replace(null_value=True)
    batch = record_batch([run_of([deleted, message()])], ["value"])
    assert batch.column("value").to_pylist() == [None, b""]
