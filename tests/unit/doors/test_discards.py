"""The JSON sockets discard an unreadable entry once, for the first reason, and return all its permits."""

from __future__ import annotations

import pytest

from broker.core.entry import FLAG_BATCH, FLAG_ORDERING_KEY
from broker.doors.entry_facts import entry_flags
from broker.doors.websocket.application import websocket_application
from broker.log.sends import SendRequest
from tests.unit.doors.fake_broker import FakeBroker, FakeConsumer
from tests.unit.doors.socket_peer import Peer
from vela.wire.checksum import with_checksum
from vela.wire.entry import Compression, OutgoingMessage, encode_batch, encode_single, parse_header
from vela.wire.message_id import MessageId
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

TARGET = "/ws/v2/consumer/persistent/public/default/orders/s?subscriptionInitialPosition=Earliest"
GOOD = encode_single(producer_name="p", sequence_id=9, publish_time_ms=1, payload=b"good")
BATCH = encode_batch(
    [OutgoingMessage(payload=b"abcdef")] * 5, producer_name="p", sequence_id=0, publish_time_ms=1
)


def entry(
    payload: bytes, *, compression: Compression = Compression.NONE, size: int = 0, batch: int = 0
) -> bytes:
    """Return an entry with a correct checksum, whatever else is wrong with it."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.compression = compression.value
    metadata.uncompressed_size = size
    if batch:
        metadata.num_messages_in_batch = batch
    head = metadata.SerializeToString()
    return with_checksum(len(head).to_bytes(4, "big") + head + payload)


def flipped(data: bytes) -> bytes:
    """Flip one bit of the last byte, which is the payload's."""
    return data[:-1] + bytes([data[-1] ^ 1])


BAD_METADATA = with_checksum(b"\x00\x00\x00\x02\xff\xff")
TOO_LARGE = entry(b"x", compression=Compression.ZLIB, size=6 * 1024 * 1024)
BAD_CODEC = entry(b"\xff" * 40, compression=Compression.LZ4, size=100)
CUT_BATCH = with_checksum(BATCH[6:-8])  # the fifth message is cut off
BAD_CODEC_BATCH = entry(b"\xff" * 40, compression=Compression.LZ4, size=100, batch=5)


async def discarded(*entries: tuple[bytes, int], queue: int = 10) -> tuple[FakeConsumer, list[str], set[int]]:
    """Deliver entries, each a pair of bytes and a number of messages, and then a good entry.

    Return the consumer, the payloads that were pushed, and the entries that were acked.
    """
    broker = FakeBroker()
    topic = broker.topic("orders")
    for data, messages in entries:
        flags = FLAG_BATCH if messages > 1 else 0
        topic.append(SendRequest(0, 0, messages, flags, 0, None, data))
    topic.append(SendRequest(9, 0, 1, 0, 0, None, GOOD))
    peer = await Peer(websocket_application(broker), f"{TARGET}&receiverQueueSize={queue}").opened()
    pushed = [push["payload"] for push in peer.heard()]
    subscription = topic.subscriptions["s"]
    return subscription.consumers[0], pushed, subscription.acked


@pytest.mark.row("S0.18")
@pytest.mark.parametrize(
    ("data", "messages", "reason"),
    [
        pytest.param(BAD_METADATA, 1, "CHECKSUM_MISMATCH", id="metadata", marks=pytest.mark.row("S0.11")),
        pytest.param(flipped(GOOD), 1, "CHECKSUM_MISMATCH", id="checksum", marks=pytest.mark.row("S0.12")),
        pytest.param(
            flipped(BATCH), 5, "CHECKSUM_MISMATCH", id="checksum of a batch", marks=pytest.mark.row("S0.12")
        ),
        pytest.param(TOO_LARGE, 1, "UNCOMPRESSED_SIZE_CORRUPTION", id="size", marks=pytest.mark.row("S0.13")),
        pytest.param(BAD_CODEC, 1, "DECOMPRESSION_ERROR", id="codec", marks=pytest.mark.row("S0.14")),
        pytest.param(CUT_BATCH, 5, "BATCH_DESERIALIZE_ERROR", id="batch", marks=pytest.mark.row("S0.15")),
    ],
)
async def test_each_damaged_entry_is_one_ack_with_its_reason(data: bytes, messages: int, reason: str) -> None:
    consumer, pushed, acked = await discarded((data, messages))
    assert pushed == ["Z29vZA=="]
    assert acked == {0}
    assert consumer.validation_errors == [reason]
    assert consumer.permits == 9  # ten, minus one for the good message, which is not acked


@pytest.mark.row("S0.11")
async def test_unreadable_metadata_is_a_checksum_mismatch() -> None:
    consumer, _, acked = await discarded((BAD_METADATA, 1))
    assert (consumer.validation_errors, acked) == (["CHECKSUM_MISMATCH"], {0})


@pytest.mark.row("S0.12")
async def test_a_wrong_checksum_is_found_before_anything_else_is_read() -> None:
    consumer, pushed, _ = await discarded(
        (flipped(BAD_CODEC), 1), (flipped(TOO_LARGE), 1), (flipped(GOOD), 1)
    )
    assert consumer.validation_errors == ["CHECKSUM_MISMATCH"] * 3
    assert pushed == ["Z29vZA=="]


@pytest.mark.row("S0.13")
async def test_a_declared_or_real_size_above_the_limit_is_not_unpacked() -> None:
    large = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=bytes(6 * 1024 * 1024))
    consumer, _, acked = await discarded((TOO_LARGE, 1), (large, 1))
    assert consumer.validation_errors == ["UNCOMPRESSED_SIZE_CORRUPTION"] * 2
    assert acked == {0, 1}


@pytest.mark.row("S0.14")
async def test_a_codecs_refusal_is_a_decompression_error() -> None:
    consumer, _, _ = await discarded((BAD_CODEC, 1))
    assert consumer.validation_errors == ["DECOMPRESSION_ERROR"]


@pytest.mark.row("S0.15")
async def test_a_batch_that_cannot_be_split_is_discarded_whole_and_once() -> None:
    consumer, pushed, acked = await discarded((CUT_BATCH, 5))
    assert consumer.validation_errors == ["BATCH_DESERIALIZE_ERROR"]
    assert acked == {0}
    assert pushed == ["Z29vZA=="]


@pytest.mark.row("S0.17")
async def test_only_the_first_failing_check_acts() -> None:
    both = flipped(BAD_CODEC_BATCH)
    consumer, _, acked = await discarded((both, 5), (BAD_CODEC_BATCH, 5))
    assert consumer.validation_errors == ["CHECKSUM_MISMATCH", "DECOMPRESSION_ERROR"]
    assert acked == {0, 1}


@pytest.mark.row("S0.19")
async def test_a_hundred_damaged_batches_leave_room_for_the_good_message() -> None:
    consumer, pushed, _ = await discarded(*[(flipped(BATCH), 5)] * 100, queue=50)
    assert pushed == ["Z29vZA=="]
    assert consumer.permits == 49


@pytest.mark.row("S0.20")
async def test_a_batch_of_one_message_is_still_a_batch() -> None:
    one = encode_batch([OutgoingMessage(payload=b"x")], producer_name="p", sequence_id=0, publish_time_ms=1)
    assert entry_flags(parse_header(one)) == FLAG_BATCH
    assert entry_flags(parse_header(GOOD)) == 0
    broker = FakeBroker()
    topic = broker.topic("orders")
    topic.append(SendRequest(0, 0, 1, FLAG_BATCH, 0, None, one))
    topic.append(SendRequest(1, 0, 1, 0, 0, None, GOOD))
    peer = await Peer(websocket_application(broker), TARGET).opened()
    ids = [MessageId.from_base64(push["messageId"]) for push in peer.heard()]
    assert [(each.batch_index, each.batch_size) for each in ids] == [(0, 1), (-1, 0)]


def test_an_entry_with_an_ordering_key_says_that_its_hash_is_not_that_of_its_key() -> None:
    ordered = encode_single(
        producer_name="p", sequence_id=1, publish_time_ms=1, payload=b"", key="k", ordering_key=b"o"
    )
    assert entry_flags(parse_header(ordered)) == FLAG_ORDERING_KEY
