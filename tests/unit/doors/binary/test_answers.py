"""Answers encoded without protobuf equal protobuf's answers. The other answers have the fields that clients require."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.binary.wire import answers
from tests.unit.wire.binary.written import only_command
from vela.wire import ack_set as ack_sets
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError
from vela.wire.binary.frames import payload_frame_head, simple_frame
from vela.wire.message_id import EARLIEST, MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK, signed64

UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.integers(-1, 2**31 - 1)
COUNTS = st.integers(0, 2**32 - 1)
ACK_SETS = st.none() | st.just(0) | st.integers(0, 2**1000)


@pytest.mark.row("S1.9")
@given(UINT64, INT64, INT64, PARTITIONS, COUNTS, ACK_SETS, st.binary(max_size=20))
def test_message_equals_protobufs_bytes(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    partition: int,
    redelivery_count: int,
    ack_set: int | None,
    entry: bytes,
) -> None:
    body = pb.CommandMessage(
        consumer_id=consumer_id,
        message_id=pb.MessageIdData(
            ledgerId=ledger_id & UINT64_MASK,
            entryId=entry_id & UINT64_MASK,
            partition=partition if partition >= 0 else None,
        ),
        redelivery_count=redelivery_count or None,
        ack_set=() if ack_set is None else ack_sets.to_words(ack_set),
    )
    command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=body).SerializeToString()
    expected = payload_frame_head(command, len(entry)) + entry
    head = answers.message_head(
        consumer_id, ledger_id, entry_id, partition, redelivery_count, ack_set, len(entry)
    )
    assert head + entry == expected


@given(UINT64, INT64, INT64, INT64, INT64)
def test_send_receipt_equals_protobufs_bytes(
    producer_id: int, sequence_id: int, ledger_id: int, entry_id: int, highest: int
) -> None:
    body = pb.CommandSendReceipt(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        message_id=pb.MessageIdData(ledgerId=ledger_id & UINT64_MASK, entryId=entry_id & UINT64_MASK),
        highest_sequence_id=highest & UINT64_MASK if highest else None,
    )
    command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=body).SerializeToString()
    receipt = (sequence_id, highest, ledger_id, entry_id, 100)
    assert answers.send_receipts(producer_id, [receipt, receipt]) == [simple_frame(command)] * 2


def test_receipts_name_the_ledger_of_each() -> None:
    receipts = [(1, 0, 5, 9, 100), (2, 0, 6, 0, 100), (3, 0, -1, -1, 100)]
    frames = [only_command(each).send_receipt for each in answers.send_receipts(0, receipts)]
    assert [(each.sequence_id, signed64(each.message_id.ledgerId)) for each in frames] == [
        (1, 5),
        (2, 6),
        (3, -1),
    ]


def test_lookup_answers_say_their_response_even_when_it_is_zero() -> None:
    partitions = only_command(answers.partition_metadata_response(7, 0)).partitionMetadataResponse
    assert partitions.HasField("response")
    assert partitions.HasField("partitions")
    redirect = only_command(
        answers.lookup_response(7, url="pulsar://b:6650", proxy_through_service_url=False, redirect=True)
    ).lookupTopicResponse
    assert redirect.HasField("response")
    assert redirect.response == pb.CommandLookupTopicResponse.Redirect
    failed = only_command(answers.lookup_failed(8, ServerError.SERVICE_NOT_READY, "later"))
    assert failed.lookupTopicResponse.error == pb.ServiceNotReady


def test_a_new_producer_has_last_sequence_id_minus_one() -> None:
    body = only_command(answers.producer_success(1, name="n")).producer_success
    assert body.HasField("last_sequence_id")
    assert body.last_sequence_id == -1


def test_a_close_by_the_broker_has_a_request_id_of_all_ones() -> None:
    request_id = commands.NO_REQUEST
    assert (
        only_command(commands.close_producer(3, request_id=request_id)).close_producer.request_id == 2**64 - 1
    )
    assert (
        only_command(commands.close_consumer(3, request_id=request_id)).close_consumer.request_id == 2**64 - 1
    )
    assert only_command(answers.error(-1, ServerError.SERVICE_NOT_READY, "x")).error.request_id == 2**64 - 1


def test_an_empty_topic_has_the_last_id_minus_one_minus_one() -> None:
    body = only_command(
        answers.last_message_id(4, last=EARLIEST, mark_delete=MessageId(9, -1))
    ).getLastMessageIdResponse
    assert (body.last_message_id.ledgerId, body.last_message_id.entryId) == (2**64 - 1, 2**64 - 1)
    assert body.last_message_id.batch_index == -1
    assert body.consumer_mark_delete_position.entryId == 2**64 - 1


def test_an_unchanged_topic_list_is_not_sent_again() -> None:
    topics = ["persistent://a/b/two", "persistent://a/b/one"]
    known = answers.topics_hash(frozenset(topics))
    first = only_command(
        answers.topics_of_namespace(1, topics, is_filtered=False)
    ).getTopicsOfNamespaceResponse
    again = only_command(
        answers.topics_of_namespace(1, topics, is_filtered=False, known_hash=known)
    ).getTopicsOfNamespaceResponse
    assert (list(first.topics), first.changed, first.topics_hash) == (topics, True, known)
    assert (list(again.topics), again.changed, again.topics_hash) == ([], False, known)


def test_the_topic_hash_is_the_checksum_in_little_endian_hex() -> None:
    assert answers.topics_hash(frozenset(["123456789"])) == "839206e3"
