"""Entries as compaction reads and rewrites them."""

from __future__ import annotations

import pytest

from broker.core.compaction.facts import CompactionEntry, CompactionMessage
from broker.core.entry import FLAG_BATCH, FLAG_CORRUPT, FLAG_MARKER, StoredEntry
from broker.core.position import Position
from broker.log.compaction.entries import compaction_entry, last_kept_index, without_messages
from tests.support.compacting import batch
from tests.support.entries import chunk, encrypted
from vela.wire.entry import Compression, checksum_ok, decode_messages, encode_single
from vela.wire.entry.header import parse_metadata
from vela.wire.entry.sealing import seal

LIMIT = 1 << 20
AB = batch("a=1", "b=2", "c=3")


def stored(data: bytes, flags: int = FLAG_BATCH) -> StoredEntry:
    return StoredEntry(4, 7, 3, flags, None, 0, 0, 3, len(data), data)


def read(data: bytes, flags: int = FLAG_BATCH) -> CompactionEntry:
    return compaction_entry(stored(data, flags), max_message_bytes=LIMIT)


def single(payload: bytes = b"x", key: str | None = "a", *, key_b64: bool = False) -> bytes:
    return encode_single(
        producer_name="p", sequence_id=0, publish_time_ms=1, payload=payload, key=key, key_b64=key_b64
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (single(), CompactionMessage("a", False)),
        (single(b""), CompactionMessage("a", True)),
        (single(key=None), CompactionMessage(None, False)),
        (single(key="YQ==", key_b64=True), CompactionMessage(b"a", False)),
        (single(key="?", key_b64=True), CompactionMessage("?", False)),
    ],
)
def test_a_message_is_read_with_its_key_and_whether_it_deletes(
    data: bytes, message: CompactionMessage
) -> None:
    assert read(data, 0) == CompactionEntry(Position(4, 7), (message,))


def test_what_is_compressed_to_nothing_is_empty() -> None:
    metadata, _ = parse_metadata(single(b""))
    metadata.compression = Compression.ZLIB
    metadata.uncompressed_size = 0
    assert read(seal(metadata, b"some bytes"), 0).messages == (CompactionMessage("a", True),)


def test_a_chunk_names_its_message() -> None:
    first, last = (read(chunk("p", 1, number, 2, partition_key="a"), 0) for number in range(2))
    assert (first.chunk_uuid, first.is_last_chunk) == ("p-1", False)
    assert (last.chunk_uuid, last.is_last_chunk) == ("p-1", True)
    assert first.messages == last.messages == (CompactionMessage("a", False),)


def unknown_codec() -> bytes:
    metadata, offset = parse_metadata(AB)
    metadata.compression = 77
    metadata.uncompressed_size = len(AB)
    return seal(metadata, AB[offset:])


def cut_off() -> bytes:
    metadata, offset = parse_metadata(AB)
    return seal(metadata, AB[offset:-1])


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        (encrypted(AB), FLAG_BATCH),
        (unknown_codec(), FLAG_BATCH),
        (cut_off(), FLAG_BATCH),
        (AB, FLAG_BATCH | FLAG_CORRUPT),
    ],
    ids=["encrypted", "codec", "cut off", "damaged"],
)
def test_an_entry_that_cannot_be_read_has_no_messages(data: bytes, flags: int) -> None:
    assert read(data, flags).messages == ()


def test_a_marker_has_no_message_to_keep() -> None:
    assert read(AB, FLAG_MARKER).messages == (None,)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB])
def test_a_removed_message_leaves_a_mark_in_its_batch(compression: Compression) -> None:
    data = without_messages(batch("a=1", "b=2", "c=3", compression=compression), [1], max_message_bytes=LIMIT)
    assert checksum_ok(data)
    (left,) = decode_messages(data, max_message_bytes=LIMIT)
    assert (left.key, left.payload, left.batch_index, left.batch_size) == ("b", b"2", 1, 3)
    assert read(data).messages == (None, CompactionMessage("b", False), None)
    assert last_kept_index(stored(data), max_message_bytes=LIMIT) == 1
    assert last_kept_index(stored(single(), 0), max_message_bytes=LIMIT) == -1
