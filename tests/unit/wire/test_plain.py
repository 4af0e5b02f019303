"""Plain entries: what is recognised without protobuf is exactly what protobuf reads."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.checksum import with_checksum
from vela.wire.entry import EntryHeader, parse_header, plain_head
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

UINT64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)
UINT32 = st.integers(0, 2**32 - 1) | st.integers(0, 300)
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"producer_name": TEXT, "sequence_id": UINT64, "publish_time": UINT64},
    optional={
        "partition_key": TEXT,
        "uncompressed_size": UINT32,
        "event_time": UINT64,
        "num_messages_in_batch": st.integers(0, 3),
        "partition_key_b64_encoded": st.booleans(),
        "ordering_key": st.binary(max_size=5),
        "deliver_at_time": st.integers(-1, 2**62),
    },
)


def entry_of(metadata: bytes, payload: bytes = b"payload", *, announced: int | None = None) -> bytes:
    """Return an entry with these bytes as its metadata, right or wrong."""
    size = len(metadata) if announced is None else announced
    return with_checksum(struct.pack(">I", size) + metadata + payload)


def require_same(entry: bytes) -> None:
    """Check that `parse_header` accepts the entry and reads the same from it, if the quick way recognises it."""
    plain = plain_head(entry)
    if plain is None:
        return
    header = parse_header(entry)
    assert header == EntryHeader(
        header.producer_name,
        header.sequence_id,
        None,
        header.publish_time_ms,
        0,
        1,
        False,
        None,
        None,
        0,
        plain.uncompressed_size,
        False,
        None if plain.key is None else plain.key.decode(),
        False,
        None,
        None,
        0,
        0,
        0,
        plain.payload_offset,
    )


@given(FIELDS, st.binary(max_size=20))
def test_what_is_recognised_is_what_protobuf_reads(fields: dict[str, Any], payload: bytes) -> None:
    require_same(entry_of(MessageMetadata(**fields).SerializeToString(), payload))


@given(FIELDS, st.data())
def test_a_changed_byte_is_read_as_protobuf_reads_it(fields: dict[str, Any], data: st.DataObject) -> None:
    metadata = bytearray(MessageMetadata(**fields).SerializeToString())
    at = data.draw(st.integers(0, len(metadata) - 1))
    metadata[at] = data.draw(st.integers(0, 255))
    require_same(entry_of(bytes(metadata)))


@given(FIELDS, st.integers(0, 60), st.binary(max_size=20))
def test_a_wrong_size_is_read_as_protobuf_reads_it(
    fields: dict[str, Any], announced: int, payload: bytes
) -> None:
    metadata = MessageMetadata(**fields).SerializeToString()
    require_same(entry_of(metadata, payload, announced=announced))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_protobuf_reads_them(data: bytes) -> None:
    require_same(data)
    require_same(entry_of(b"\x0a" + data))


@pytest.mark.parametrize(
    ("fields", "key", "uncompressed_size"),
    [
        pytest.param({}, None, 0, id="C++"),
        pytest.param({"uncompressed_size": 100}, None, 100, id="Go and Java"),
        pytest.param({"partition_key": "k-17"}, b"k-17", 0, id="key"),
        pytest.param({"partition_key": "", "uncompressed_size": 70_000}, b"", 70_000, id="empty key"),
        pytest.param({"sequence_id": 0, "publish_time": 0}, None, 0, id="zeros"),
        pytest.param({"sequence_id": 2**63 - 1, "publish_time": 2**63 - 1}, None, 0, id="largest"),
    ],
)
def test_usual_entries_are_recognised(
    fields: dict[str, Any], key: bytes | None, uncompressed_size: int
) -> None:
    usual = {"producer_name": "standalone-4-7", "sequence_id": 70_000, "publish_time": 1_795_000_000_000}
    metadata = MessageMetadata(**{**usual, **fields}).SerializeToString()
    assert plain_head(entry_of(metadata)) == (10 + len(metadata), key, uncompressed_size)


@pytest.mark.parametrize("cut", range(24))
def test_an_entry_that_is_cut_off_is_not_recognised(cut: int) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2).SerializeToString()
    entry = entry_of(metadata, b"")
    assert plain_head(entry) is not None
    assert plain_head(entry[: min(cut, len(entry) - 1)]) is None
