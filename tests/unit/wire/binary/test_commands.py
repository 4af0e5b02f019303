"""Commands encoded by hand, with protobuf as the oracle; and what clients insist on in the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.binary.answers import only_command, parse_frames
from vela.wire import ack_set as ack_sets
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, ValidationError
from vela.wire.binary.frames import payload_frame_head, simple_frame
from vela.wire.message_id import EARLIEST, MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.integers(-1, 2**31 - 1)
COUNTS = st.integers(0, 2**32 - 1)
ACK_SETS = st.none() | st.just(0) | st.integers(0, 2**1000)


@pytest.mark.row("S1.9")
@given(UINT64, INT64, INT64, PARTITIONS, COUNTS, ACK_SETS, st.binary(max_size=20))
def test_message_is_what_protobuf_writes(
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
    frame = commands.message_frame(
        consumer_id, ledger_id, entry_id, partition, redelivery_count, ack_set, entry
    )
    assert b"".join(frame) == expected


@given(UINT64, INT64, INT64, INT64, st.none() | INT64)
def test_send_receipt_is_what_protobuf_writes(
    producer_id: int, sequence_id: int, ledger_id: int, entry_id: int, highest: int | None
) -> None:
    body = pb.CommandSendReceipt(
        producer_id=producer_id,
        sequence_id=sequence_id & UINT64_MASK,
        message_id=pb.MessageIdData(ledgerId=ledger_id & UINT64_MASK, entryId=entry_id & UINT64_MASK),
        highest_sequence_id=None if highest is None else highest & UINT64_MASK,
    )
    command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=body).SerializeToString()
    assert commands.send_receipt(
        producer_id,
        sequence_id,
        ledger_id=ledger_id,
        entry_id=entry_id,
        highest_sequence_id=highest,
    ) == simple_frame(command)


def test_the_entry_of_a_message_is_not_copied() -> None:
    entry = b"entry" * 100
    assert commands.message_frame(1, 2, 3, -1, 0, None, entry)[1] is entry
    assert commands.send(1, 2, entry)[1] is entry


def test_lookup_answers_say_their_response_even_when_it_is_zero() -> None:
    partitions = only_command(commands.partition_metadata_response(7, 0)).partitionMetadataResponse
    assert partitions.HasField("response")
    assert partitions.HasField("partitions")
    redirect = only_command(
        commands.lookup_response(7, url="pulsar://b:6650", proxy_through_service_url=False, redirect=True)
    ).lookupTopicResponse
    assert redirect.HasField("response")
    assert redirect.response == pb.CommandLookupTopicResponse.Redirect
    failed = only_command(commands.lookup_failed(8, ServerError.SERVICE_NOT_READY, "later"))
    assert failed.lookupTopicResponse.error == pb.ServiceNotReady


def test_a_new_producer_has_last_sequence_id_minus_one() -> None:
    body = only_command(commands.producer_success(1, name="n")).producer_success
    assert body.HasField("last_sequence_id")
    assert body.last_sequence_id == -1


def test_what_the_broker_closes_itself_has_a_request_id_of_all_ones() -> None:
    request_id = commands.NO_REQUEST
    assert (
        only_command(commands.close_producer(3, request_id=request_id)).close_producer.request_id == 2**64 - 1
    )
    assert (
        only_command(commands.close_consumer(3, request_id=request_id)).close_consumer.request_id == 2**64 - 1
    )
    assert only_command(commands.error(-1, ServerError.SERVICE_NOT_READY, "x")).error.request_id == 2**64 - 1


def test_ping_and_pong_carry_their_empty_body() -> None:
    assert only_command(commands.ping()).HasField("ping")
    assert only_command(commands.pong()).HasField("pong")


def test_an_empty_topic_has_the_last_id_minus_one_minus_one() -> None:
    body = only_command(
        commands.last_message_id(4, last=EARLIEST, mark_delete=MessageId(9, -1))
    ).getLastMessageIdResponse
    assert (body.last_message_id.ledgerId, body.last_message_id.entryId) == (2**64 - 1, 2**64 - 1)
    assert body.last_message_id.batch_index == -1
    assert body.consumer_mark_delete_position.entryId == 2**64 - 1


def test_an_unchanged_topic_list_is_not_sent_again() -> None:
    topics = ["persistent://a/b/two", "persistent://a/b/one"]
    known = commands.topics_hash(reversed(topics))
    first = only_command(commands.topics_of_namespace(1, topics)).getTopicsOfNamespaceResponse
    again = only_command(
        commands.topics_of_namespace(1, topics, known_hash=known)
    ).getTopicsOfNamespaceResponse
    assert (list(first.topics), first.changed, first.topics_hash) == (topics, True, known)
    assert (list(again.topics), again.changed, again.topics_hash) == ([], False, known)


def test_the_topic_hash_is_the_checksum_in_little_endian_hex() -> None:
    assert commands.topics_hash(["123456789"]) == "839206e3"


def test_every_error_code_is_the_protocols() -> None:
    by_number = {value: name for name, value in pb.ServerError.items()}
    assert {code.value: code.name.replace("_", "").lower() for code in ServerError} == {
        number: name.lower() for number, name in by_number.items()
    }


def test_frames_of_several_commands_follow_each_other() -> None:
    data = commands.ping() + b"".join(commands.send(1, 2, b"entry", messages=3, is_chunk=True))
    (ping, nothing), (send, payload) = parse_frames(data)
    assert (ping.type, nothing) == (pb.BaseCommand.PING, None)
    assert (send.send.num_messages, send.send.is_chunk, payload) == (3, True, b"entry")


@given(
    UINT64,
    st.lists(st.tuples(INT64, INT64, ACK_SETS), max_size=6),
    st.booleans(),
    st.none() | st.sampled_from(ValidationError),
    st.dictionaries(st.text(max_size=200), UINT64, max_size=2),
    st.none() | UINT64,
)
def test_ack_is_what_protobuf_writes(
    consumer_id: int,
    ids: list[tuple[int, int, int | None]],
    cumulative: bool,
    validation_error: ValidationError | None,
    properties: dict[str, int],
    request_id: int | None,
) -> None:
    body = pb.CommandAck(
        consumer_id=consumer_id,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=[
            pb.MessageIdData(
                ledgerId=ledger_id & UINT64_MASK,
                entryId=entry_id & UINT64_MASK,
                ack_set=() if ack_set is None else ack_sets.to_words(ack_set),
            )
            for ledger_id, entry_id, ack_set in ids
        ],
        validation_error=None
        if validation_error is None
        else pb.CommandAck.ValidationError.ValueType(validation_error),
        properties=[pb.KeyLongValue(key=key, value=value) for key, value in properties.items()],
        request_id=request_id,
    )
    expected = pb.BaseCommand(type=pb.BaseCommand.ACK, ack=body).SerializeToString()
    frame = commands.ack(
        consumer_id,
        ids,
        cumulative=cumulative,
        validation_error=validation_error,
        properties=properties,
        request_id=request_id,
    )
    assert frame == simple_frame(expected)


@given(UINT64, st.lists(st.tuples(INT64, INT64), max_size=50), st.none() | UINT64)
def test_redeliver_is_what_protobuf_writes(
    consumer_id: int, positions: list[tuple[int, int]], epoch: int | None
) -> None:
    body = pb.CommandRedeliverUnacknowledgedMessages(
        consumer_id=consumer_id,
        message_ids=[
            pb.MessageIdData(ledgerId=ledger_id & UINT64_MASK, entryId=entry_id & UINT64_MASK)
            for ledger_id, entry_id in positions
        ],
        consumer_epoch=epoch,
    )
    kind = pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
    expected = pb.BaseCommand(type=kind, redeliverUnacknowledgedMessages=body).SerializeToString()
    assert commands.redeliver(consumer_id, positions, epoch=epoch) == simple_frame(expected)
