"""Messages cut into chunks and joined again, with losses, repeats and strangers in between."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.consuming.chunk_assembly import Chunk, ChunkAssembler, ChunkOutcome
from vela.core.producing import send_frames
from vela.core.producing.batching import Batch
from vela.core.producing.chunks import ChunkingImpossible, split
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.pending_sends import PendingSend
from vela.core.producing.send_frames import PayloadTooLarge, ProducerIdentity, SendFrames
from vela.wire.compression import Compression, decompress
from vela.wire.entry import FRAME_PADDING_BYTES, parse_header
from vela.wire.entry.sealing import TAG_BYTES, MessageMetadata

LIMIT = 1000
BIG = bytes(range(256)) * 20
NOTHING: ChunkOutcome[int] = ChunkOutcome()


def frames(
    compression: Compression = Compression.NONE, *, chunking: bool = True, encrypted: bool = False
) -> SendFrames[str]:
    identity = ProducerIdentity(name="cutter", max_message_bytes=LIMIT)
    return SendFrames(
        producer_id=1,
        identity=identity,
        compression=compression,
        encrypt=sealed if encrypted else None,
        chunking=chunking,
    )


def sealed(metadata: MessageMetadata, payload: bytes) -> bytes:
    metadata.encryption_keys.add(key="key", value=bytes(256))
    return payload + bytes(TAG_BYTES)


def payload_sizes(sends: list[PendingSend[str]]) -> list[int]:
    entries = [send.frame[1] for send in sends]
    return [len(entry) - parse_header(entry).payload_offset for entry in entries]


def chunk(chunk_id: int, *, uuid: str = "u", chunks: int = 3, total: int = 30, age_ms: int = 0) -> Chunk:
    return Chunk(uuid, chunk_id, chunks, total, age_ms)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_large_message_becomes_chunks_that_fit_and_join_to_itself(compression: Compression) -> None:
    payload = b"".join(n.to_bytes(4, "big") for n in range(3000))
    message = Outgoing(payload, properties={"name": "x" * 100}, key="k")
    sends = frames(compression).single(message, 7, "token", publish_time_ms=1, now_ms=1)
    assert len(sends) > 2
    assert [send.tokens for send in sends] == [[]] * (len(sends) - 1) + [["token"]]
    assert {send.sequence_id for send in sends} == {7}
    assert len({id(send.chunked) for send in sends}) == 1
    assembler = ChunkAssembler[int]()
    for number, send in enumerate(sends):
        entry = send.frame[1]
        header = parse_header(entry)
        assert len(entry) - 10 <= LIMIT  # magic, checksum and metadata size are not counted
        assert (header.chunk_id, header.num_chunks, header.partition_key) == (number, len(sends), "k")
        assert not header.is_batch
        piece = Chunk(header.chunk_uuid or "", number, header.num_chunks, header.total_chunk_bytes, 0)
        outcome = assembler.add(piece, number, entry[header.payload_offset :], 0)
    assert outcome.ids == tuple(range(len(sends)))
    assert outcome.payload is not None
    assert decompress(compression, outcome.payload, uncompressed_bytes=len(payload)) == payload
    assert len(assembler) == 0


def test_a_message_that_fits_when_compressed_is_not_cut() -> None:
    (send,) = frames(Compression.ZSTD).single(Outgoing(BIG), 1, "t", publish_time_ms=0, now_ms=0)
    assert send.chunked is None
    assert parse_header(send.frame[1]).num_chunks == 0


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_message_that_consumers_would_not_decompress_is_refused(
    compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = random.Random(1).randbytes(5 * LIMIT)
    monkeypatch.setattr(send_frames, "MAX_JOINED_BYTES", len(payload))
    frames(compression).single(Outgoing(payload), 1, "t", publish_time_ms=0, now_ms=0)
    monkeypatch.setattr(send_frames, "MAX_JOINED_BYTES", len(payload) - 1)
    if not compression:
        frames().single(Outgoing(payload), 1, "t", publish_time_ms=0, now_ms=0)
        return
    with pytest.raises(PayloadTooLarge, match="a message of 5000 bytes before compression is above the 4999"):
        frames(compression).single(Outgoing(payload), 1, "t", publish_time_ms=0, now_ms=0)


def test_without_chunking_a_large_message_is_refused_by_name() -> None:
    with pytest.raises(PayloadTooLarge, match=r"5120 bytes.*1000.*chunking_enabled"):
        frames(chunking=False).single(Outgoing(BIG), 1, "t", publish_time_ms=0, now_ms=0)


@pytest.mark.parametrize("chunking", [False, True])
def test_an_encrypted_message_may_be_as_large_as_the_limit_with_its_tag(chunking: bool) -> None:
    message = Outgoing(bytes(LIMIT - TAG_BYTES))
    sends = frames(chunking=chunking, encrypted=True).single(message, 1, "t", publish_time_ms=0, now_ms=0)
    assert payload_sizes(sends) == [LIMIT]


@pytest.mark.parametrize("size", [LIMIT - TAG_BYTES + 1, LIMIT])
def test_a_message_that_only_encryption_makes_too_large_is_cut_or_refused(size: int) -> None:
    message = Outgoing(bytes(size))
    sends = frames(encrypted=True).single(message, 1, "t", publish_time_ms=0, now_ms=0)
    sizes = payload_sizes(sends)
    assert len(sizes) > 1
    assert max(sizes) <= LIMIT
    assert sum(sizes) == size + TAG_BYTES * len(sizes)
    with pytest.raises(PayloadTooLarge, match=rf"a message of {size + TAG_BYTES} bytes, encrypted, is above"):
        frames(chunking=False, encrypted=True).single(message, 1, "t", publish_time_ms=0, now_ms=0)


def test_a_batch_that_only_encryption_makes_too_large_is_refused() -> None:
    batch = Batch[str](0)
    batch.add(Outgoing(bytes(LIMIT - TAG_BYTES)), 0, "t")
    assert LIMIT - TAG_BYTES < len(batch.payload) <= LIMIT
    frames(chunking=False).batch(batch, publish_time_ms=0, now_ms=0)
    with pytest.raises(PayloadTooLarge, match=r"a batch of 1 messages of \d+ bytes, encrypted, is above"):
        frames(chunking=False, encrypted=True).batch(batch, publish_time_ms=0, now_ms=0)


@pytest.mark.parametrize(
    "message",
    [Outgoing(b"x" * LIMIT, properties={"k": "x" * 10_000}), Outgoing(b"", key="k" * 20_000)],
    ids=["properties", "key"],
)
def test_properties_and_keys_that_no_frame_takes_are_refused_before_they_are_sent(message: Outgoing) -> None:
    with pytest.raises(PayloadTooLarge, match="properties and keys"):
        frames(chunking=False).single(message, 1, "t", publish_time_ms=0, now_ms=0)
    with pytest.raises(ChunkingImpossible):
        frames().single(message, 1, "t", publish_time_ms=0, now_ms=0)


def test_a_frame_with_the_largest_metadata_is_one_that_a_broker_takes() -> None:
    message = Outgoing(b"x" * LIMIT, properties={"k": "x" * 9_500})
    (send,) = frames(chunking=False).single(message, 1, "t", publish_time_ms=0, now_ms=0)
    assert sum(map(len, send.frame)) <= LIMIT + FRAME_PADDING_BYTES


def test_properties_may_leave_no_room_for_a_payload() -> None:
    with pytest.raises(ChunkingImpossible, match="properties"):
        frames().single(Outgoing(BIG, properties={"k": "x" * 2000}), 1, "t", publish_time_ms=0, now_ms=0)


@given(st.binary(min_size=1, max_size=500), st.integers(0, 40), st.integers(50, 100))
def test_the_joined_pieces_are_the_payload(payload: bytes, metadata_bytes: int, limit: int) -> None:
    pieces = split(payload, metadata_bytes=metadata_bytes, max_message_bytes=limit)
    assert b"".join(pieces) == payload
    assert all(0 < len(piece) <= limit - metadata_bytes for piece in pieces)


def test_chunks_of_several_messages_may_interleave() -> None:
    assembler = ChunkAssembler[str]()
    done = []
    for chunk_id in range(3):
        for uuid in ("a", "b"):
            outcome = assembler.add(chunk(chunk_id, uuid=uuid), f"{uuid}{chunk_id}", b"0123456789", 0)
            if outcome.payload is not None:
                done.append(outcome.ids)
    assert done == [("a0", "a1", "a2"), ("b0", "b1", "b2")]


def test_a_chunk_delivered_again_changes_nothing_and_one_sent_again_is_acked() -> None:
    assembler = ChunkAssembler[int]()
    assembler.add(chunk(0), 10, b"aa", 0)
    assembler.add(chunk(1), 11, b"bb", 0)
    assert assembler.add(chunk(0), 10, b"aa", 0) == NOTHING
    assert assembler.add(chunk(1), 11, b"bb", 0) == NOTHING
    assert assembler.add(chunk(1), 21, b"bb", 0).acknowledge == (21,)
    assert assembler.add(chunk(2), 12, b"cc", 0)[:2] == (b"aabbcc", (10, 11, 12))


def test_a_message_sent_again_from_its_first_chunk_starts_over() -> None:
    assembler = ChunkAssembler[int]()
    assembler.add(chunk(0), 10, b"aa", 0)
    assembler.add(chunk(1), 11, b"bb", 0)
    assert assembler.add(chunk(0), 20, b"aa", 0).acknowledge == (10, 11)
    assembler.add(chunk(1), 21, b"bb", 0)
    assert assembler.add(chunk(2), 22, b"cc", 0).ids == (20, 21, 22)


@pytest.mark.parametrize(
    "stranger",
    [chunk(2), chunk(1, chunks=4), chunk(1, total=5)],
    ids=["a gap", "another number of chunks", "more bytes than announced"],
)
def test_a_chunk_out_of_sequence_ends_the_message(stranger: Chunk) -> None:
    assembler = ChunkAssembler[int]()
    assembler.add(chunk(0, total=stranger.total_bytes), 10, b"aaa", 0)
    assert assembler.add(stranger, 12, b"ccc", 0).redeliver == (10, 12)
    assert len(assembler) == 0


def test_a_later_chunk_of_an_unknown_message_may_be_redelivered_unless_it_is_old() -> None:
    assembler = ChunkAssembler[int]()
    assert assembler.add(chunk(1, age_ms=59_999), 11, b"b", 0).redeliver == (11,)
    assert assembler.add(chunk(1, age_ms=60_000), 11, b"b", 0).acknowledge == (11,)


@pytest.mark.parametrize("auto_ack", [True, False])
def test_beyond_the_limit_the_oldest_incomplete_message_is_dropped(auto_ack: bool) -> None:
    assembler = ChunkAssembler[str](auto_ack_oldest=auto_ack)
    for number in range(10):
        outcome = assembler.add(chunk(0, uuid=str(number)), f"{number}", b"x", 0)
        assert (outcome.acknowledge, outcome.redeliver) == ((), ())
    outcome = assembler.add(chunk(0, uuid="eleventh"), "new", b"x", 0)
    assert (outcome.acknowledge, outcome.redeliver) == ((("0",), ()) if auto_ack else ((), ("0",)))
    assert len(assembler) == 10


def test_an_incomplete_message_expires_after_a_minute() -> None:
    assembler = ChunkAssembler[int]()
    assert assembler.next_expiry_ms() is None
    assembler.add(chunk(0, uuid="old"), 1, b"x", 1000)
    assembler.add(chunk(1, uuid="old"), 2, b"x", 50_000)
    assembler.add(chunk(0, uuid="young"), 3, b"x", 30_000)
    assert assembler.next_expiry_ms() == 61_000
    assert assembler.take_expired(60_999) == ()
    assert assembler.take_expired(61_000) == (1, 2)
    assert assembler.take_expired(61_000) == ()
    assembler.clear()
    assert assembler.take_expired(1 << 40) == ()
