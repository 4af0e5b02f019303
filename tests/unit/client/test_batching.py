"""Batches: no message is lost, changed or reordered, and limits are kept."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.acks.batch_acks import MAX_BATCH_SIZE
from vela.core.producing.batching import Batch, Batching, BatchLimits, Gathering, SequenceIds
from vela.core.producing.key_batching import KeyBatching
from vela.core.producing.options import ProducerOptions
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.send_frames import ProducerIdentity, SendFrames
from vela.wire.compression import Compression
from vela.wire.entry import Message, decode_messages, parse_header

IDENTITY = ProducerIdentity(name="orders", max_message_bytes=5 * 1024 * 1024)
LIMITS = BatchLimits(max_messages=4, max_bytes=100)

messages = st.builds(
    Outgoing,
    payload=st.binary(max_size=60),
    properties=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    key=st.none() | st.sampled_from(["a", "b", "c"]),
    key_b64=st.booleans(),
    ordering_key=st.none() | st.binary(max_size=4),
    event_time_ms=st.integers(0, 1 << 62),
    null_value=st.just(False),
    sequence_id=st.none(),
    deliver_at_ms=st.none(),
    replicate_to=st.just(()),
)
explicit = st.tuples(messages, st.none() | st.integers(0, 40)).map(
    lambda pair: pair[0]._replace(sequence_id=pair[1])
)


def gather(gathering: Gathering[int], given: list[Outgoing]) -> list[Batch[int]]:
    """Gather messages as a producer does, and return the batches. The token of a message is its index."""
    batches: list[Batch[int]] = []
    for index, message in enumerate(given):
        if not gathering.fits(message):
            batches += gathering.take()
        assert gathering.fits(message)
        if gathering.add(message, index):
            batches += gathering.take()
    return batches + gathering.take()


def read(batch: Batch[int], compression: Compression = Compression.NONE) -> list[Message]:
    send = SendFrames[int](producer_id=1, identity=IDENTITY, compression=compression).batch(
        batch, publish_time_ms=1234, now_ms=0
    )
    return decode_messages(send.frame[1], max_message_bytes=IDENTITY.max_message_bytes)


@given(st.lists(messages, max_size=20), st.integers(0, 1 << 40))
def test_batches_contain_every_message_in_order(given: list[Outgoing], first: int) -> None:
    batches = gather(Batching[int](LIMITS, SequenceIds(first)), given)
    assert [token for batch in batches for token in batch.tokens] == list(range(len(given)))
    out = [message for batch in batches for message in read(batch)]
    assert [message.sequence_id for message in out] == list(range(first, first + len(given)))
    for sent, message in zip(given, out, strict=True):
        assert message.payload == sent.payload
        assert message.properties == sent.properties
        assert (message.key, message.ordering_key) == (sent.key, sent.ordering_key)
        assert message.event_time_ms == sent.event_time_ms
        assert message.key_b64 == sent.key_b64


@given(st.lists(messages, max_size=20))
def test_no_batch_is_larger_than_its_limits(given: list[Outgoing]) -> None:
    for batch in gather(Batching[int](LIMITS, SequenceIds(0)), given):
        assert len(batch.tokens) <= LIMITS.max_messages
        assert batch.payload_bytes <= LIMITS.max_bytes or len(batch.tokens) == 1
        assert batch.payload_bytes == sum(len(given[token].payload) for token in batch.tokens)


@given(st.lists(explicit, max_size=20), st.booleans())
def test_a_possible_duplicate_has_its_own_batch(given: list[Outgoing], by_key: bool) -> None:
    ids = SequenceIds(0)
    gathering: Gathering[int] = KeyBatching(LIMITS, ids) if by_key else Batching(LIMITS, ids)
    highest = -1
    for batch in gather(gathering, given):
        sequence_ids = [message.sequence_id for message in read(batch)]
        assert sequence_ids == sorted(set(sequence_ids))
        if sequence_ids[0] <= highest:
            assert len(sequence_ids) == 1  # a deduplicating broker drops only this message
        highest = max(highest, sequence_ids[-1])


@given(st.lists(messages, max_size=20))
def test_key_based_batches_have_one_key_each_in_order(given: list[Outgoing]) -> None:
    batches = gather(KeyBatching[int](LIMITS, SequenceIds(7)), given)
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    next_id = 7
    for batch in batches:
        members = [given[token] for token in batch.tokens]
        assert len({member.sticky_key() for member in members}) == 1
        by_key[members[0].sticky_key()] += batch.tokens
        assert [message.sequence_id for message in read(batch)] == list(
            range(next_id, next_id + len(members))
        )
        next_id += len(members)
        entry = (
            SendFrames[int](producer_id=1, identity=IDENTITY)
            .batch(batch, publish_time_ms=1, now_ms=0)
            .frame[1]
        )
        header = parse_header(entry)
        assert (header.partition_key, header.ordering_key) == (members[0].key, members[0].ordering_key)
    for tokens in by_key.values():
        assert tokens == sorted(tokens)
    assert sorted(token for tokens in by_key.values() for token in tokens) == list(range(len(given)))


def test_no_batch_has_more_messages_than_a_consumer_can_ack_one_by_one() -> None:
    options = ProducerOptions(batching_enabled=True, batching_max_messages=MAX_BATCH_SIZE + 1)
    limits = options.batch_limits()
    assert limits is not None
    assert limits.max_messages == MAX_BATCH_SIZE


@given(st.lists(st.binary(max_size=60), max_size=30), st.integers(0, 1 << 40))
def test_plain_messages_take_the_short_way_to_the_same_bytes(payloads: list[bytes], first: int) -> None:
    short, long = Batching[int](LIMITS, SequenceIds(first)), Batching[int](LIMITS, SequenceIds(first))
    batches: list[Batch[int]] = []
    for index, payload in enumerate(payloads):
        full = short.add_plain(payload, index)
        if full is None:
            batches += short.take()
            full = short.add_plain(payload, index)
        assert full is not None
        if full:
            batches += short.take()
    batches += short.take()
    expected = gather(long, [Outgoing(payload) for payload in payloads])
    assert [bytes(batch.payload) for batch in batches] == [bytes(batch.payload) for batch in expected]
    assert [batch.tokens for batch in batches] == [batch.tokens for batch in expected]


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_is_compressed_as_a_whole(codec: Compression) -> None:
    gathering = Batching[int](BatchLimits(), SequenceIds(0))
    for index in range(50):
        gathering.add(Outgoing(b"the same words again", properties={"n": str(index)}), index)
    (batch,) = gathering.take()
    assert [message.properties["n"] for message in read(batch, codec)] == [str(n) for n in range(50)]


def test_a_batch_of_one_is_still_a_batch_and_a_tombstone_says_so() -> None:
    gathering = Batching[int](BatchLimits(), SequenceIds(3))
    gathering.add(Outgoing(b"", key="gone", null_value=True), 0)
    (batch,) = gathering.take()
    assert batch.payload.endswith(b"\x48\x01")
    header = parse_header(
        SendFrames[int](producer_id=1, identity=IDENTITY).batch(batch, publish_time_ms=9, now_ms=0).frame[1]
    )
    assert (header.is_batch, header.messages, header.sequence_id) == (True, 1, 3)
    assert header.publish_time_ms == 9
    assert gathering.take() == []


def test_an_explicit_sequence_id_moves_the_counter() -> None:
    ids = SequenceIds(5)
    assert [ids.take(given) for given in (None, 10, None, 3, None)] == [5, 10, 11, 3, 12]
