"""Bytes that break the protocol, and commands that the broker does not send to clients that cannot handle them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.binary.wire import answers, events
from tests.unit.doors.binary.engines import (
    EVERY_EVENT,
    MAX_MESSAGE_BYTES,
    connected_engine,
    frame,
)
from tests.unit.wire.binary.written import parse_frames
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.binary.frames import payload_frame_head, simple_frame
from vela.wire.binary.handshake import ConnectionState
from vela.wire.errors import (
    FrameTooLarge,
    LocalProtocolError,
    MalformedCommand,
    RemoteProtocolError,
    UnexpectedCommand,
    WireError,
)
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (simple_frame(b""), MalformedCommand, "type is missing"),
        (simple_frame(b"\x08\x7f"), MalformedCommand, "type is missing or unknown"),
        (simple_frame(b"\xff"), MalformedCommand, "protobuf"),
        (simple_frame(b"\x08\x06\x32\x02\x08\x01"), MalformedCommand, "SEND lacks"),
        (frame(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE)), MalformedCommand, "SUBSCRIBE lacks"),
        (
            commands.send(1, 2, b"")[0],
            MalformedCommand,
            "no entry",
        ),
        (payload_frame_head(commands.ping()[8:], 1) + b"x", MalformedCommand, "after its command"),
        (answers.success(1), UnexpectedCommand, "broker's command"),
        (answers.send_receipts(1, [(2, 0, 3, 4, 0)])[0], UnexpectedCommand, "broker's command"),
        (commands.lookup("@@", request_id=1).replace(b"@@", b"\xff\xfe"), MalformedCommand, "UTF-8"),
        (b"\x7f\xff\xff\xff\0\0\0\x04", FrameTooLarge, "limit"),
    ],
)
def test_violations_of_the_protocol_are_named(
    data: bytes, error: type[RemoteProtocolError], said: str
) -> None:
    engine = connected_engine()
    with pytest.raises(error, match=said) as caught:
        engine.receive(commands.flow(1, 10) + data)
    assert caught.value.events == (events.Flow(1, 10),)
    assert engine.state is ConnectionState.FAILED


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_garbage_raises_nothing_but_wire_errors(pieces: list[bytes]) -> None:
    engine = connected_engine()
    for piece in pieces:
        try:
            engine.receive(piece)
        except WireError:
            assert engine.state is ConnectionState.FAILED


@given(st.binary(max_size=60), st.none() | st.binary(max_size=20))
def test_a_garbage_command_in_a_sound_frame_raises_nothing_but_wire_errors(
    command: bytes, payload: bytes | None
) -> None:
    data = simple_frame(command) if not payload else payload_frame_head(command, len(payload)) + payload
    try:
        connected_engine().receive(data)
    except RemoteProtocolError:
        return


@given(st.sampled_from([data for data, _ in EVERY_EVENT]), st.data())
def test_a_damaged_command_raises_nothing_but_wire_errors(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    index = draw.draw(st.integers(0, len(damaged) - 1))
    damaged[index] ^= draw.draw(st.integers(1, 255))
    try:
        connected_engine().receive(bytes(damaged))
    except RemoteProtocolError:
        return


def test_frames_up_to_the_padding_beyond_the_largest_message_are_taken() -> None:
    entry = bytes(MAX_MESSAGE_BYTES + 10_000)
    (event,) = connected_engine().receive(b"".join(commands.send(1, 2, entry)))
    assert isinstance(event, events.Send)
    assert event.entry_block == entry
    with pytest.raises(FrameTooLarge):
        connected_engine().receive(b"".join(commands.send(1, 2, bytes(MAX_MESSAGE_BYTES + 10_240))))


def test_answers_come_out_in_order_and_entries_uncopied() -> None:
    engine = connected_engine()
    entry = b"entry" * 50
    engine.send_success(1)
    engine.send_message(7, ledger_id=1, entry_id=2, entry=entry, redelivery_count=3, ack_set=6)
    engine.send_receipts(1, [(2, 0, 3, 4, 0)])
    pending = engine.pending_bytes
    out = engine.data_to_send()
    assert any(buffer is entry for buffer in out)
    assert (sum(map(len, out)), engine.pending_bytes) == (pending, 0)
    (success, _), (message, payload), (receipt, _) = parse_frames(out)
    assert success.success.request_id == 1
    assert (message.message.redelivery_count, list(message.message.ack_set), payload) == (3, [6], entry)
    assert receipt.send_receipt.message_id.entryId == 4


def test_commands_that_break_old_clients_are_left_out() -> None:
    engine = connected_engine(version=11)
    engine.send_active_consumer_change(1, is_active=True)
    engine.send_reached_end_of_topic(1)
    assert engine.data_to_send() == []
    java = connected_engine(client="Pulsar-Java-v4.0.0")
    java.send_active_consumer_change(1, is_active=True)
    java.send_reached_end_of_topic(1)
    change, end = parse_frames(java.data_to_send())
    assert change[0].active_consumer_change.is_active
    assert end[0].reachedEndOfTopic.consumer_id == 1
    old_java = connected_engine(client="Pulsar-Java-v1.20.0", version=8)
    old_java.send_reached_end_of_topic(1)
    assert old_java.data_to_send() == []


def test_a_client_too_old_to_lose_one_producer_must_lose_its_connection() -> None:
    engine = connected_engine(version=4)
    with pytest.raises(LocalProtocolError, match="close its connection"):
        engine.send_close_producer(1)
    with pytest.raises(LocalProtocolError, match="close its connection"):
        engine.send_close_consumer(1)


def test_every_other_answer_is_written_as_a_command() -> None:
    engine = connected_engine()
    engine.send_ping()
    engine.send_pong()
    engine.send_error(1, ServerError.CONSUMER_BUSY, "busy")
    engine.send_partition_metadata(2, 3)
    engine.send_partition_metadata_failed(2, ServerError.TOPIC_NOT_FOUND, "none")
    engine.send_lookup(4, url="pulsar://h:6650")
    engine.send_lookup_failed(4, ServerError.SERVICE_NOT_READY, "later")
    engine.send_topics_of_namespace(5, ["t"], is_filtered=False)
    engine.send_producer_success(6, name="p", last_sequence_id=9, topic_epoch=1, ready=False)
    engine.send_send_error(7, 8, ServerError.CHECKSUM_ERROR, "crc")
    engine.send_close_producer(7)
    engine.send_close_consumer(8)
    engine.send_ack_response(8, 9)
    engine.send_ack_response(8, 9, code=ServerError.METADATA_ERROR, message="no")
    engine.send_last_message_id(10, last=MessageId(1, 2, 0, 4, 5), mark_delete=MessageId(1, 1))
    engine.send_consumer_stats(
        11,
        consumer_name="c",
        type=SubType.KEY_SHARED,
        address="h:1",
        connected_since="2026-01-01T00:00:00Z",
        permits=-3,
        unacked_messages=4,
        blocked=False,
        backlog_entries=5,
        message_rate_out=1.5,
        bytes_rate_out=2.5,
        redeliver_rate=0.0,
        ack_rate=0.0,
    )
    engine.send_consumer_stats_failed(11, ServerError.CONSUMER_NOT_FOUND, "gone")
    answers = [command for command, _ in parse_frames(engine.data_to_send())]
    assert all(command.IsInitialized() for command in answers)
    assert [pb.BaseCommand.Type.Name(command.type) for command in answers] == [
        "PING",
        "PONG",
        "ERROR",
        "PARTITIONED_METADATA_RESPONSE",
        "PARTITIONED_METADATA_RESPONSE",
        "LOOKUP_RESPONSE",
        "LOOKUP_RESPONSE",
        "GET_TOPICS_OF_NAMESPACE_RESPONSE",
        "PRODUCER_SUCCESS",
        "SEND_ERROR",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
        "ACK_RESPONSE",
        "ACK_RESPONSE",
        "GET_LAST_MESSAGE_ID_RESPONSE",
        "CONSUMER_STATS_RESPONSE",
        "CONSUMER_STATS_RESPONSE",
    ]
    assert answers[5].lookupTopicResponse.proxy_through_service_url
    assert answers[14].getLastMessageIdResponse.last_message_id.batch_index == 4
    assert answers[15].consumerStatsResponse.type == "Key_Shared"
    assert answers[15].consumerStatsResponse.availablePermits == 0
