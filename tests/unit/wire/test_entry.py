"""Entries: a consumer gets what a producer encoded, and an error names the damage."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.compression import Compression
from vela.wire.entry import (
    OutgoingMessage,
    checksum_ok,
    decode_messages,
    encode_batch,
    encode_single,
    last_sequence_id,
    parse_header,
    with_checksum,
)
from vela.wire.errors import (
    BatchCorrupt,
    ChecksumMismatch,
    CodecUnavailable,
    DecompressionFailed,
    EntryCorrupt,
    EntryEncrypted,
    EntryIsChunk,
    MetadataCorrupt,
    UncompressedSizeExceeded,
)
from vela.wire.pb.vela_pulsar_pb2 import EncryptionKeys, MessageMetadata, SingleMessageMetadata

LIMIT = 5 * 1024 * 1024

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TIMES = st.integers(0, 2**63 - 1)
OUTGOING = st.builds(
    OutgoingMessage,
    payload=st.binary(max_size=300),
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
    key=st.none() | TEXT,
    event_time_ms=TIMES,
    ordering_key=st.none() | st.binary(max_size=10),
)


def entry_of(payload: bytes = b"", **fields: Any) -> bytes:
    """Return an entry with this metadata, right or wrong, and a correct checksum."""
    required = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
    metadata = MessageMetadata(**{**required, **fields}).SerializeToString()
    return with_checksum(struct.pack(">I", len(metadata)) + metadata + payload)


def group(payload: bytes, **fields: Any) -> bytes:
    """Return one member of a batch, encoded."""
    single = SingleMessageMetadata(**{"payload_size": len(payload), **fields}).SerializeToString()
    return struct.pack(">I", len(single)) + single + payload


@given(OUTGOING, st.sampled_from(Compression), TIMES, TIMES, st.none() | TIMES)
def test_a_single_message_is_read_as_it_was_encoded(
    message: OutgoingMessage,
    compression: Compression,
    sequence_id: int,
    publish_time_ms: int,
    deliver_at_ms: int | None,
) -> None:
    entry = encode_single(
        producer_name="standalone-0-7",
        sequence_id=sequence_id,
        publish_time_ms=publish_time_ms,
        payload=message.payload,
        properties=message.properties,
        key=message.key,
        event_time_ms=message.event_time_ms,
        deliver_at_ms=deliver_at_ms,
        compression=compression,
        ordering_key=message.ordering_key,
    )
    (decoded,) = decode_messages(entry, max_message_bytes=LIMIT)
    assert decoded.payload == message.payload
    assert decoded.properties == message.properties
    assert decoded.key == message.key
    assert decoded.ordering_key == message.ordering_key
    assert (decoded.event_time_ms, decoded.publish_time_ms) == (message.event_time_ms, publish_time_ms)
    assert (decoded.batch_index, decoded.batch_size) == (-1, 0)
    assert (decoded.sequence_id, decoded.producer_name) == (sequence_id, "standalone-0-7")
    header = parse_header(entry)
    assert (header.sequence_id, header.messages, header.is_batch) == (sequence_id, 1, False)
    assert (header.deliver_at_ms, header.compression) == (deliver_at_ms, compression)
    assert header.highest_sequence_id is None
    if compression is Compression.NONE:
        assert entry[header.payload_offset :] == message.payload


@pytest.mark.row("S0.25")
@given(st.lists(OUTGOING, min_size=1, max_size=8), st.sampled_from(Compression))
def test_a_batch_is_read_in_order(messages: list[OutgoingMessage], compression: Compression) -> None:
    entry = encode_batch(
        messages,
        producer_name="p",
        sequence_id=40,
        publish_time_ms=1_700_000_000_000,
        compression=compression,
    )
    decoded = decode_messages(entry, max_message_bytes=LIMIT)
    assert [(m.payload, m.properties, m.key, m.event_time_ms, m.ordering_key) for m in decoded] == [
        (m.payload, m.properties, m.key, m.event_time_ms, m.ordering_key) for m in messages
    ]
    assert [m.batch_index for m in decoded] == list(range(len(messages)))
    assert [m.sequence_id for m in decoded] == list(range(40, 40 + len(messages)))
    assert {m.batch_size for m in decoded} == {len(messages)}
    header = parse_header(entry)
    assert (header.messages, header.is_batch) == (len(messages), True)
    assert (header.sequence_id, header.highest_sequence_id) == (40, 39 + len(messages))


def test_a_batch_of_one_message_is_still_a_batch() -> None:
    entry = encode_batch([OutgoingMessage(payload=b"x")], producer_name="p", sequence_id=0, publish_time_ms=1)
    header = parse_header(entry)
    assert (header.is_batch, header.messages) == (True, 1)
    assert decode_messages(entry, max_message_bytes=LIMIT)[0].batch_index == 0


def test_a_batch_needs_messages() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([], producer_name="p", sequence_id=0, publish_time_ms=1)


def test_the_header_has_the_fields_that_the_broker_needs() -> None:
    entry = entry_of(
        b"cipher",
        sequence_id=2**64 - 1,
        marker_type=7,
        uuid="u-1",
        chunk_id=2,
        num_chunks_from_msg=3,
        total_chunk_msg_size=900,
        encryption_keys=[EncryptionKeys(key="k", value=b"v")],
        compression=9,
        uncompressed_size=55,
    )
    header = parse_header(entry)
    assert (header.sequence_id, header.marker_type) == (-1, 7)
    assert (header.chunk_uuid, header.chunk_id, header.num_chunks) == ("u-1", 2, 3)
    assert (header.total_chunk_bytes, header.encrypted) == (900, True)
    assert (header.compression, header.uncompressed_size) == (9, 55)
    assert entry[header.payload_offset :] == b"cipher"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"ordering_key": b"\xff", "partition_key": "k"}, b"\xff"),
        ({"ordering_key": b"", "partition_key": "k"}, b""),
        ({"partition_key": "ключ"}, "ключ".encode()),
        (
            {"partition_key": base64.b64encode(b"\x00\xff").decode(), "partition_key_b64_encoded": True},
            b"\x00\xff",
        ),
        ({"partition_key": "not base64!", "partition_key_b64_encoded": True}, b"not base64!"),
        ({"producer_name": "p", "sequence_id": 12}, b"p-12"),
    ],
)
def test_the_sticky_key_is_the_ordering_key_else_the_partition_key(
    fields: dict[str, Any], key: bytes
) -> None:
    assert parse_header(entry_of(**fields)).sticky_key() == key


def test_members_removed_by_compaction_are_left_out() -> None:
    payload = group(b"a") + group(b"b", compacted_out=True) + group(b"c")
    decoded = decode_messages(
        entry_of(payload, sequence_id=10, num_messages_in_batch=3), max_message_bytes=LIMIT
    )
    assert [(m.batch_index, m.payload, m.sequence_id) for m in decoded] == [(0, b"a", 10), (2, b"c", 12)]


@given(st.data())
def test_a_damaged_entry_is_a_checksum_mismatch(data: st.DataObject) -> None:
    entry = bytearray(encode_single(producer_name="p", sequence_id=1, publish_time_ms=2, payload=b"payload"))
    index = data.draw(st.integers(2, len(entry) - 1))
    entry[index] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ChecksumMismatch):
        decode_messages(bytes(entry), max_message_bytes=LIMIT)


@given(st.binary(max_size=120), st.booleans())
def test_garbage_raises_nothing_but_entry_corrupt(data: bytes, sealed: bool) -> None:
    entry = with_checksum(data) if sealed else data
    for read in (parse_header, lambda e: decode_messages(e, max_message_bytes=LIMIT)):
        try:
            read(entry)
        except EntryCorrupt:
            continue
        assert checksum_ok(entry) or entry[:2] == b"\x0e\x01"


@given(st.binary(max_size=60), st.sampled_from([0, 1, 2, 3, 4, 5]), st.integers(0, 60), st.integers(-1, 9))
def test_a_garbage_payload_under_good_metadata_raises_nothing_but_entry_corrupt(
    payload: bytes, compression: int, size: int, messages: int
) -> None:
    entry = entry_of(payload, compression=compression, uncompressed_size=size, num_messages_in_batch=messages)
    try:
        decoded = decode_messages(entry, max_message_bytes=LIMIT)
    except EntryCorrupt:
        return
    assert len(decoded) <= messages


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (b"", MetadataCorrupt),
        (b"\x0e\x01\0\0", ChecksumMismatch),
        (with_checksum(b"\0\0"), MetadataCorrupt),
        (with_checksum(b"\0\0\0\x09abc"), MetadataCorrupt),
        (with_checksum(b"\0\0\0\x02\xff\xff"), MetadataCorrupt),
        (with_checksum(b"\0\0\0\0payload"), MetadataCorrupt),
        (with_checksum(b"\0\0\0\x09\x0a\x03\xff\xfe\xfd\x10\x00\x18\x00"), MetadataCorrupt),
        (entry_of(b"12345678901", compression=1, uncompressed_size=LIMIT + 1), UncompressedSizeExceeded),
        (entry_of(bytes(LIMIT + 1)), UncompressedSizeExceeded),
        (entry_of(b"\xff\xff", compression=3, uncompressed_size=50), DecompressionFailed),
        (entry_of(b"x", compression=8, uncompressed_size=50), CodecUnavailable),
        (entry_of(b"x", encryption_keys=[EncryptionKeys(key="k", value=b"v")]), EntryEncrypted),
        (entry_of(b"x", num_chunks_from_msg=2, chunk_id=0, uuid="u"), EntryIsChunk),
        (entry_of(b"", num_messages_in_batch=1), BatchCorrupt),
        (entry_of(group(b"a"), num_messages_in_batch=2), BatchCorrupt),
        (entry_of(group(b"a") + b"!", num_messages_in_batch=1), BatchCorrupt),
        (entry_of(group(b"a", payload_size=2), num_messages_in_batch=1), BatchCorrupt),
        (entry_of(group(b"a", payload_size=-1), num_messages_in_batch=1), BatchCorrupt),
        (entry_of(b"\0\0\0\x09abc", num_messages_in_batch=1), BatchCorrupt),
        (entry_of(b"\0\0\0\x02\xff\xff", num_messages_in_batch=1), BatchCorrupt),
        (entry_of(b"\0\0\0\0", num_messages_in_batch=1), BatchCorrupt),
        (entry_of(b"x" * 20, num_messages_in_batch=0), BatchCorrupt),
    ],
)
def test_errors_are_named(entry: bytes, error: type[EntryCorrupt]) -> None:
    with pytest.raises(error):
        decode_messages(entry, max_message_bytes=LIMIT)


@pytest.mark.parametrize("messages", [-1, 0, 4, 2**31 - 1])
def test_more_messages_than_fit_are_refused_by_the_header(messages: int) -> None:
    payload = group(b"") * 3
    assert parse_header(entry_of(payload, num_messages_in_batch=3)).messages == 3
    with pytest.raises(MetadataCorrupt):
        parse_header(entry_of(payload, num_messages_in_batch=messages))


def test_text_that_is_not_utf8_is_refused_and_not_handed_on_as_bytes() -> None:
    good = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, partition_key="@@")
    metadata = good.SerializeToString().replace(b"@@", b"\xff\xfe")
    entry = with_checksum(struct.pack(">I", len(metadata)) + metadata)
    with pytest.raises(MetadataCorrupt, match="UTF-8"):
        parse_header(entry)
    with pytest.raises(MetadataCorrupt, match="UTF-8"):
        decode_messages(entry, max_message_bytes=LIMIT)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_the_last_sequence_id_of_a_batch_is_its_last_message_s(compression: Compression) -> None:
    entry = encode_batch(
        [OutgoingMessage(payload=b"x" * size) for size in (0, 5, 300)],
        producer_name="p",
        sequence_id=7,
        publish_time_ms=1,
        compression=compression,
    )
    assert last_sequence_id(entry, max_message_bytes=10**6) == 9
    with pytest.raises(BatchCorrupt if compression is Compression.NONE else DecompressionFailed):
        last_sequence_id(
            entry[:-310] if compression is Compression.NONE else entry[:-8], max_message_bytes=10**6
        )
