"""The bytes of a delivery become messages, or there is one reason to throw them away."""

from __future__ import annotations

import pytest

from tests.unit.client.entries import batch, compose, damage, group, metadata, single
from vela.core.consuming.entry_opening import Damaged, OpenedEntry, Undecryptable, join_chunks, open_entry
from vela.wire.binary.enums import ValidationError
from vela.wire.compression import Compression, compress
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

LIMIT = 5 * 1024 * 1024
UNPACKED = 6 * 1024 * 1024


def opened(block: bytes, ack_set: int | None = None, limit: int = LIMIT) -> OpenedEntry:
    return open_entry(block, ack_set, max_message_bytes=limit, max_uncompressed_bytes=UNPACKED)


def damaged(block: bytes, ack_set: int | None = None, limit: int = LIMIT) -> Damaged:
    with pytest.raises(Damaged) as caught:
        opened(block, ack_set, limit)
    return caught.value


def test_a_single_message_is_opened_with_its_fields() -> None:
    found = opened(single(b"hello", partition_key="k", event_time=5))
    [message] = found.messages
    assert (message.payload, message.key, message.event_time_ms) == (b"hello", "k", 5)
    assert (message.batch_index, found.batch_size, found.charged) == (-1, 0, 1)


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_decompressed(codec: Compression) -> None:
    assert opened(single(b"hello " * 50, codec)).messages[0].payload == b"hello " * 50
    found = opened(batch([b"a" * 90, b"", b"c"], codec))
    assert [message.payload for message in found.messages] == [b"a" * 90, b"", b"c"]


def test_a_message_without_a_checksum_is_taken_unchecked() -> None:
    block = single(b"hello")[6:]
    assert opened(block).messages[0].payload == b"hello"


@pytest.mark.row("S0.11")
def test_unreadable_metadata_is_a_checksum_mismatch() -> None:
    assert damaged(compose(b"\xff\xff\xff", b"payload")).reason is ValidationError.CHECKSUM_MISMATCH
    nameless = compose(MessageMetadata(sequence_id=1, publish_time=1).SerializePartialToString(), b"x")
    assert damaged(nameless).reason is ValidationError.CHECKSUM_MISMATCH
    assert damaged(single()[:8]).charged == 1


@pytest.mark.row("S0.12")
def test_a_wrong_checksum_is_noticed_before_anything_else() -> None:
    assert damaged(damage(single())).reason is ValidationError.CHECKSUM_MISMATCH
    unreadable = compose(b"\xff\xff\xff", b"payload", checksum=1)
    assert "checksum" in str(damaged(unreadable))


@pytest.mark.row("S0.13")
def test_sizes_are_looked_at_before_unpacking() -> None:
    declared = compose(
        metadata(compression=Compression.LZ4.value, uncompressed_size=UNPACKED + 1), b"not lz4 at all"
    )
    assert damaged(declared).reason is ValidationError.UNCOMPRESSED_SIZE_CORRUPTION
    declared_alone = compose(metadata(uncompressed_size=UNPACKED + 1), b"small")
    assert damaged(declared_alone).reason is ValidationError.UNCOMPRESSED_SIZE_CORRUPTION
    actual = single(b"x" * 101)
    assert damaged(actual, limit=100).reason is ValidationError.UNCOMPRESSED_SIZE_CORRUPTION
    assert opened(actual, limit=101).messages


@pytest.mark.row("S0.13")
def test_an_entry_that_is_small_only_when_compressed_is_decompressed() -> None:
    payload = compress(Compression.ZLIB, bytes(UNPACKED))
    declared = compose(metadata(compression=Compression.ZLIB.value, uncompressed_size=UNPACKED), payload)
    assert opened(declared, limit=len(payload)).messages[0].payload == bytes(UNPACKED)


@pytest.mark.row("S0.14")
def test_a_codecs_refusal_is_a_decompression_error() -> None:
    for codec in (Compression.LZ4, Compression.ZLIB, Compression.ZSTD, Compression.SNAPPY):
        garbage = compose(metadata(compression=codec.value, uncompressed_size=500), b"\xff garbage \x00" * 3)
        assert damaged(garbage).reason is ValidationError.DECOMPRESSION_ERROR


@pytest.mark.row("S0.15")
def test_a_truncated_batch_is_damaged_and_keeps_its_readable_messages() -> None:
    five = [b"%d" % index * 20 for index in range(5)]
    error = damaged(batch(five, cut=2 * (4 + 4 + 20) + 5))
    assert (error.reason, error.charged) == (ValidationError.BATCH_DESERIALIZE_ERROR, 5)
    assert [message.payload for message in error.messages] == five[:2]
    assert [message.batch_index for message in error.messages] == [0, 1]


@pytest.mark.row("S0.15")
def test_bytes_after_the_last_message_are_damage_too() -> None:
    body = group(b"a", sequence_id=1) + group(b"b", sequence_id=2)
    error = damaged(compose(metadata(num_messages_in_batch=1), body))
    assert error.reason is ValidationError.BATCH_DESERIALIZE_ERROR
    for count in (0, -1):
        error = damaged(compose(metadata(num_messages_in_batch=count), body))
        assert (error.reason, error.charged) == (ValidationError.BATCH_DESERIALIZE_ERROR, 1)


@pytest.mark.row("S0.16")
def test_without_the_key_the_payload_stays_encrypted() -> None:
    head = metadata(num_messages_in_batch=3)
    head.encryption_keys.add(key="mine", value=b"sealed")
    block = compose(head, b"ciphertext")
    with pytest.raises(Undecryptable) as caught:
        opened(block)
    assert (caught.value.payload, caught.value.charged) == (b"ciphertext", 3)
    assert caught.value.metadata.encryption_keys[0].key == "mine"


@pytest.mark.row("S0.16")
def test_decryption_comes_before_decompression_and_batch() -> None:
    packed = batch([b"a" * 40, b"b" * 40], Compression.ZSTD)
    offset = 10 + int.from_bytes(packed[6:10], "big")
    head = MessageMetadata.FromString(packed[10:offset])
    head.encryption_keys.add(key="mine", value=b"sealed")
    sealed = compose(head, bytes(byte ^ 0x55 for byte in packed[offset:]))
    found = open_entry(
        sealed,
        None,
        max_message_bytes=LIMIT,
        max_uncompressed_bytes=UNPACKED,
        decrypt=lambda head, payload: bytes(byte ^ 0x55 for byte in payload),
    )
    assert [message.payload for message in found.messages] == [b"a" * 40, b"b" * 40]


@pytest.mark.row("S0.16")
def test_a_decrypted_payload_is_measured_after_decryption() -> None:
    head = metadata()
    head.encryption_keys.add(key="mine", value=b"sealed")
    block = compose(head, b"x" * 116)  # 16 of these bytes are the cipher's tag
    found = open_entry(
        block,
        None,
        max_message_bytes=100,
        max_uncompressed_bytes=100,
        decrypt=lambda head, payload: payload[16:],
    )
    assert len(found.messages[0].payload) == 100
    with pytest.raises(Damaged) as caught:
        open_entry(
            block,
            None,
            max_message_bytes=99,
            max_uncompressed_bytes=99,
            decrypt=lambda head, payload: payload[16:],
        )
    assert caught.value.reason is ValidationError.UNCOMPRESSED_SIZE_CORRUPTION


@pytest.mark.row("S0.17")
def test_the_first_check_that_fails_decides() -> None:
    wrong_all_over = metadata(
        compression=Compression.LZ4.value, uncompressed_size=7 << 20, num_messages_in_batch=9
    )
    assert damaged(compose(wrong_all_over, b"?", checksum=1)).reason is ValidationError.CHECKSUM_MISMATCH
    assert damaged(compose(wrong_all_over, b"?")).reason is ValidationError.UNCOMPRESSED_SIZE_CORRUPTION
    wrong_all_over.uncompressed_size = 60
    assert damaged(compose(wrong_all_over, b"?")).reason is ValidationError.DECOMPRESSION_ERROR


@pytest.mark.row("S0.19")
def test_a_damaged_batch_reports_its_cost() -> None:
    ten = batch([b"x" * 10] * 10)
    assert damaged(damage(ten)).charged == 10
    assert damaged(damage(ten), ack_set=0b11).charged == 2
    packed = batch([b"x" * 10] * 10, Compression.ZSTD)
    assert damaged(damage(packed)).charged == 10


@pytest.mark.row("S0.19")
def test_a_count_that_the_bytes_have_no_room_for_is_not_believed() -> None:
    claims = compose(metadata(num_messages_in_batch=1 << 30), b"x" * 40, checksum=1)
    assert damaged(claims).charged == 1


@pytest.mark.row("S0.20")
def test_a_batch_of_one_message_is_still_a_batch() -> None:
    found = opened(batch([b"alone"]))
    assert (found.batch_size, found.charged) == (1, 1)
    assert found.messages[0].batch_index == 0
    assert opened(single(b"alone")).batch_size == 0


@pytest.mark.row("S0.25")
def test_a_batch_comes_in_order_with_its_indexes() -> None:
    payloads = [b"%d" % index for index in range(10)]
    found = opened(batch(payloads))
    assert [message.payload for message in found.messages] == payloads
    assert [message.batch_index for message in found.messages] == list(range(10))
    assert {message.batch_size for message in found.messages} == {10}
    assert found.charged == 10


@pytest.mark.row("S4.6")
def test_acked_messages_of_a_batch_are_neither_shown_nor_charged() -> None:
    found = opened(batch([b"%d" % index for index in range(10)]), ack_set=0b10_0000_0101)
    assert [message.batch_index for message in found.messages] == [0, 2, 9]
    assert found.charged == 3


def test_compacted_messages_are_left_out_but_were_charged() -> None:
    body = group(b"", compacted_out=True) + group(b"kept", sequence_id=8)
    found = opened(compose(metadata(num_messages_in_batch=2), body))
    assert [(message.payload, message.batch_index) for message in found.messages] == [(b"kept", 1)]
    assert found.charged == 2


def test_null_values_and_schema_versions_are_kept() -> None:
    found = opened(single(b"", null_value=True, schema_version=b"\x01"))
    assert found.messages[0].null_value
    assert found.messages[0].schema_version == b"\x01"
    body = group(b"", null_value=True) + group(b"")
    two = opened(compose(metadata(num_messages_in_batch=2), body)).messages
    assert [message.null_value for message in two] == [True, False]


def test_a_chunk_is_returned_as_a_piece_to_be_joined() -> None:
    head = metadata(
        uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=10, uncompressed_size=9 << 20
    )
    found = opened(compose(head, b"first"))
    assert (found.messages, found.piece, found.charged) == ([], b"first", 1)
    head.uncompressed_size = 0
    assert join_chunks(head, b"firstlast", max_joined_bytes=100).payload == b"firstlast"
    head.compression = Compression.ZSTD.value
    head.uncompressed_size = 101
    with pytest.raises(Damaged):
        join_chunks(head, b"?", max_joined_bytes=100)
