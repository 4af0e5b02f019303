"""Batches of messages that have only a payload, cut without decoding each message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.source.plain_batches import LEAST_MESSAGES, plain_messages
from vela.wire.entry import OutgoingMessage, decode_messages, encode_batch
from vela.wire.entry.batches import Message, split_batch
from vela.wire.entry.header import parse_metadata
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

sizes = st.one_of(
    st.integers(0, 300).map(lambda size: [size] * 40),
    st.lists(st.integers(0, 300), min_size=LEAST_MESSAGES, max_size=50),
)


def batch_of(messages: list[OutgoingMessage], sequence_id: int = 0) -> bytes:
    return encode_batch(messages, producer_name="p", sequence_id=sequence_id, publish_time_ms=1)


def payload_of(entry: bytes) -> bytes:
    return entry[parse_metadata(entry)[1] :]


@given(sizes=sizes, sequence_id=st.integers(0, 2**62) | st.sampled_from([100, 127, 16_350, 2_097_140]))
def test_plain_messages_equal_those_of_the_decoder(sizes: list[int], sequence_id: int) -> None:
    entry = batch_of(
        [OutgoingMessage(payload=bytes([index % 251]) * size) for index, size in enumerate(sizes)],
        sequence_id,
    )
    found = plain_messages(payload_of(entry), len(sizes))
    expected = decode_messages(entry, max_message_bytes=1 << 30)
    assert found is not None
    assert found.values.to_pylist() == [message.payload for message in expected]
    assert found.sequence_ids.to_pylist() == [message.sequence_id for message in expected]


@given(
    number=st.integers(0, 39),
    special=st.sampled_from(
        [
            OutgoingMessage(payload=b"1234567", key="k"),
            OutgoingMessage(payload=b"1234567", properties={"a": "b"}),
            OutgoingMessage(payload=b"1234567", event_time_ms=5),
            OutgoingMessage(payload=b"1234", key="k"),  # with its key, this message is as long as the others
        ]
    ),
)
def test_one_message_that_is_not_plain_leaves_the_batch_to_the_decoder(
    number: int, special: OutgoingMessage
) -> None:
    messages = [OutgoingMessage(payload=b"1234567") for _ in range(40)]
    messages[number] = special
    assert plain_messages(payload_of(batch_of(messages)), 40) is None


@given(
    size=st.sampled_from([9, 200]),
    odd=st.booleans(),
    position=st.integers(0, 20_000)
    | st.integers(0, 39).map(lambda number: number * 19 + 5),  # inside the head of a message
    octet=st.integers(0, 255),
    cut=st.integers(0, 30),
)
def test_a_damaged_batch_is_left_to_the_decoder(
    size: int, odd: bool, position: int, octet: int, cut: int
) -> None:
    """If the quick way finds messages, they must be those that the decoder finds in the same bytes."""
    messages = [OutgoingMessage(payload=bytes(size + (odd and number == 3))) for number in range(40)]
    payload = bytearray(payload_of(batch_of(messages, 120)))
    payload[position % len(payload)] = octet
    damaged = bytes(payload[: len(payload) - cut])
    found = plain_messages(damaged, 40)
    if found is None:
        return
    expected: list[Message] = []
    metadata = MessageMetadata(producer_name="p", sequence_id=120, publish_time=1, num_messages_in_batch=40)
    split_batch(metadata, damaged, expected)
    assert found.values.to_pylist() == [message.payload for message in expected]
    assert found.sequence_ids.to_pylist() == [message.sequence_id for message in expected]


def test_small_batches_are_left_to_the_decoder() -> None:
    messages = [OutgoingMessage(payload=b"x")] * (LEAST_MESSAGES - 1)
    assert plain_messages(payload_of(batch_of(messages)), len(messages)) is None
