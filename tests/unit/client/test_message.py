"""vela.message: what an application reads, and message ids that Apache's client understands."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.message import Message, MessageId, ReceivedEntry
from vela.schema import StringSchema
from vela.wire.entry import Message as Body
from vela.wire.entry import decode_messages, encode_single

_INT32 = st.integers(-1, (1 << 31) - 1)
_INT64 = st.integers(-1, (1 << 63) - 1)


def message(payload: bytes = b"payload", *, null_value: bool = False, schema_version: bytes = b"") -> Message:
    """A message as a consumer makes it: the fourth of a batch of ten."""
    body = Body(
        payload, {"a": "1"}, "key", 5, 7, 3, 10, 42, "producer", b"order", False, null_value, schema_version
    )
    return Message(body, ReceivedEntry("persistent://public/default/t-partition-2", 11, 12, 2, 1, 10))


@given(partition=_INT32, ledger=_INT64, entry=_INT64, batch_index=_INT32)
def test_ids_are_written_as_apaches_client_writes_them(
    partition: int, ledger: int, entry: int, batch_index: int
) -> None:
    ours = MessageId(partition, ledger, entry, batch_index)
    theirs = pulsar.MessageId(partition, ledger, entry, batch_index)
    assert ours.serialize() == theirs.serialize()
    assert str(ours) == str(theirs)
    again = MessageId.deserialize(theirs.serialize())
    assert again == ours
    assert hash(again) == hash(ours)


def test_the_ids_of_both_ends_of_a_topic_are_apaches() -> None:
    assert MessageId.earliest.serialize() == pulsar.MessageId.earliest.serialize()
    assert MessageId.latest.serialize() == pulsar.MessageId.latest.serialize()
    assert MessageId.earliest < MessageId(-1, 0, 0) < MessageId.latest


def test_ids_are_ordered_by_place() -> None:
    ids = [
        MessageId(0, 1, 9),
        MessageId(0, 2, 0, 0),
        MessageId(1, 2, 0, 0),
        MessageId(0, 2, 0, 1),
        MessageId(0, 2, 1),
    ]
    assert all(earlier < later for earlier, later in itertools.pairwise(ids))
    assert ids[0] != ids[1]
    assert ids[0] != "(1,9,0,-1)"


def test_the_id_of_a_chunked_message_keeps_the_id_of_its_first_chunk() -> None:
    first = MessageId(-1, 3, 4)
    again = MessageId.deserialize(MessageId(-1, 3, 9, first_chunk=first).serialize(), topic="t")
    assert again.first_chunk() == first
    assert again.topic_name() == "t"


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda value, protocol=protocol: pickle.loads(pickle.dumps(value, protocol)) for protocol in range(6)),
]


@pytest.mark.parametrize("again", COPIES)
def test_a_received_id_that_is_copied_or_pickled_equals_one_read_from_its_bytes(
    again: Callable[[Any], Any],
) -> None:
    entry = ReceivedEntry("persistent://public/default/t-partition-2", 11, 12, 2, 1, 10)
    entry.receiver = threading.Lock()  # stands for a consumer, which cannot be pickled
    entry.chunks = (MessageId(2, 11, 5),)
    received = Message(message().body, entry).message_id()
    copied = again(received)
    assert copied == received
    assert hash(copied) == hash(received)
    assert (str(copied), copied.batch_size(), copied.topic_name()) == (
        "(11,12,2,3)",
        10,
        received.topic_name(),
    )
    assert copied.first_chunk() == MessageId(2, 11, 5)
    assert copied.serialize() == received.serialize()
    assert copied.received() is None
    assert received.received() is entry


def test_pickling_a_message_fails_and_says_what_to_store_instead() -> None:
    got = message()
    for fails in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"keep its data\(\), properties\(\) and message_id\(\)"):
            fails(got)
    assert copy.copy(got).message_id().received() is got.entry


def test_changing_returned_properties_does_not_change_the_message() -> None:
    got = message()
    got.properties()["b"] = 2  # type: ignore[assignment]  # as an application might do
    assert got.properties() == {"a": "1"}


@pytest.mark.parametrize("data", [b"", b"\x08\x01", b"\xff\xff", b"\x08"])
def test_bytes_that_are_not_an_id_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a message id"):
        MessageId.deserialize(data)


def test_a_message_has_the_values_of_the_wire() -> None:
    got = message()
    assert (got.data(), got.value(), got.properties()) == (b"payload", b"payload", {"a": "1"})
    assert (got.partition_key(), got.ordering_key()) == ("key", "order")
    assert (got.event_timestamp(), got.publish_timestamp(), got.sequence_id()) == (5, 7, 42)
    assert (got.topic_name(), got.producer_name(), got.redelivery_count()) == (
        "persistent://public/default/t-partition-2",
        "producer",
        1,
    )
    assert str(got.message_id()) == "(11,12,2,3)"
    assert got.message_id().batch_size() == 10
    assert got.message_id().received() is got.entry
    assert got.int_schema_version() == -1
    assert message(schema_version=b"\0\0\0\0\0\0\0\x05").int_schema_version() == 5


def test_a_value_goes_through_the_schema_and_a_null_value_does_not() -> None:
    got = message("grün".encode())
    got.entry.schema = StringSchema()
    assert got.value() == "grün"
    nothing = message(b"", null_value=True)
    nothing.entry.schema = StringSchema()
    assert nothing.has_null_value()
    assert nothing.value() is None


def test_messages_have_no_dict() -> None:
    assert not hasattr(message(), "__dict__")
    assert not hasattr(message().entry, "__dict__")


def test_the_wire_reads_null_values_and_schema_versions() -> None:
    plain = encode_single(producer_name="p", sequence_id=1, publish_time_ms=2, payload=b"x")
    (body,) = decode_messages(plain, max_message_bytes=100)
    assert (body.null_value, body.schema_version) == (False, b"")
