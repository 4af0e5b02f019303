"""Message ids: known vectors, protobuf as the oracle, and three forms that are read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire import varint
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import EARLIEST, LATEST, MessageId
from vela.wire.pb.vela_pulsar_pb2 import MessageIdData
from vela.wire.varint import UINT64_MASK

INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 2**31 - 1)
IDS = st.builds(
    MessageId, INT64, INT64, partition=st.just(-1) | SMALL, batch_index=st.just(-1) | SMALL, batch_size=SMALL
)

VECTORS = [
    (MessageId(3, 0), "080310003000", "CAMQADAA"),
    (MessageId(12, 34), "080c10223000", "CAwQIjAA"),
    (MessageId(12, 34, 2), "080c102218023000", "CAwQIhgCMAA="),
    (MessageId(12, 34, -1, 1, 3), "080c102220013003", "CAwQIiABMAM="),
    (EARLIEST, "08ffffffffffffffffff0110ffffffffffffffffff013000", "CP///////////wEQ////////////ATAA"),
    (LATEST, "08ffffffffffffffff7f10ffffffffffffffff7f3000", "CP//////////fxD//////////38wAA=="),
]


@pytest.mark.parametrize(("message_id", "encoded", "text"), VECTORS)
def test_known_ids_have_their_bytes_and_texts(message_id: MessageId, encoded: str, text: str) -> None:
    assert message_id.to_bytes().hex() == encoded
    assert message_id.to_base64() == text
    assert MessageId.from_base64(text) == message_id


def test_ids_of_older_servers_have_no_batch_size() -> None:
    assert MessageId.from_base64("CAAQAw==") == MessageId(0, 3)


@given(IDS)
def test_bytes_equal_protobufs(message_id: MessageId) -> None:
    oracle = MessageIdData(
        ledgerId=message_id.ledger_id & UINT64_MASK,
        entryId=message_id.entry_id & UINT64_MASK,
        partition=message_id.partition if message_id.partition >= 0 else None,
        batch_index=message_id.batch_index if message_id.batch_index >= 0 else None,
        batch_size=message_id.batch_size,
    )
    assert message_id.to_bytes() == oracle.SerializeToString()


@given(IDS)
def test_every_spelling_of_an_id_is_read_back(message_id: MessageId) -> None:
    decoded = MessageId.from_base64(message_id.to_base64())
    assert decoded == message_id
    assert decoded.batch_size == message_id.batch_size
    assert MessageId.parse(str(message_id)) == message_id


@given(IDS, st.randoms(use_true_random=False))
def test_fields_may_come_in_any_order_among_unknown_ones(message_id: MessageId, random: object) -> None:
    assert hasattr(random, "shuffle")
    encoded = [
        MessageIdData(ledgerId=message_id.ledger_id & UINT64_MASK).SerializePartialToString(),
        MessageIdData(entryId=message_id.entry_id & UINT64_MASK).SerializePartialToString(),
        MessageIdData(batch_index=message_id.batch_index).SerializePartialToString(),
        MessageIdData(partition=message_id.partition).SerializePartialToString(),
        MessageIdData(ack_set=[-1, 5]).SerializePartialToString(),
        MessageIdData(first_chunk_message_id=MessageIdData(ledgerId=1, entryId=2)).SerializePartialToString(),
        bytes.fromhex("79 0102030405060708"),  # field 15, eight bytes
        bytes.fromhex("7d 01020304"),  # field 15, four bytes
    ]
    random.shuffle(encoded)
    assert MessageId.from_bytes(b"".join(encoded)) == message_id


@given(st.lists(IDS, min_size=2, max_size=6))
def test_ids_are_ordered_by_ledger_entry_and_batch_index(ids: list[MessageId]) -> None:
    ordered = sorted(ids)
    keys = [(i.ledger_id, i.entry_id, i.batch_index) for i in ordered]
    assert keys == sorted(keys)
    assert all((a <= b) == (a < b or a == b) for a in ids for b in ids)


@given(st.binary(max_size=40))
def test_garbage_is_refused_by_name(data: bytes) -> None:
    try:
        MessageId.from_bytes(data)
    except InvalidMessageId:
        return
    assert MessageIdData.FromString(data).IsInitialized()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1:2:3:4:5",
        "a:b",
        "1: 2",
        "1:+2",
        "01:2",
        "1:2:-2",
        f"{2**63}:0",
        f"1:2:{2**31}",
        "1:2\n",
        "½:1",
    ],
)
def test_a_text_that_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageId):
        MessageId.parse(text)


@pytest.mark.parametrize("text", ["", "****", "CAMQADA", "CAMQ\nADAA", "ключ", "CAM=", "MAA="])
def test_a_base64_text_that_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageId):
        MessageId.from_base64(text)


@pytest.mark.parametrize(("field", "value"), [(3, -2), (4, -2), (6, -1), (3, 2**31), (4, 2**63 - 1)])
def test_bytes_with_an_impossible_small_number_are_refused(field: int, value: int) -> None:
    data = MessageId(1, 2).to_bytes() + bytes((field << 3,)) + varint.encode(value)
    with pytest.raises(InvalidMessageId, match=f"field {field}"):
        MessageId.from_bytes(data)


def test_the_text_of_an_id_names_the_same_message_without_its_batch_size() -> None:
    assert MessageId.parse("12:34:-1:1") == MessageId(12, 34, -1, 1, 3)
    assert hash(MessageId.parse("12:34:-1:1")) == hash(MessageId(12, 34, -1, 1, 3))
