"""Whatever the broker's builders write is read, however its bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.binary.wire import answers
from tests.unit.wire.binary.engines import connected_engine
from vela.wire.binary import commands, replies
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.binary.fields import parse_command
from vela.wire.binary.frames import Frame, payload_frame_head, simple_frame
from vela.wire.binary.handshake import ConnectionState
from vela.wire.binary.plain_replies import plain_reply
from vela.wire.binary.reply_decoding import _NEVER_ASKED, decode_reply
from vela.wire.binary.schema import Schema
from vela.wire.errors import (
    MalformedCommand,
    RemoteProtocolError,
    UnexpectedCommand,
)
from vela.wire.message_id import EARLIEST, MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb


def frame(command: pb.BaseCommand) -> bytes:
    return simple_frame(command.SerializePartialToString())


EVERY_REPLY: list[tuple[bytes, replies.Reply]] = [
    (commands.ping(), replies.Ping()),
    (commands.pong(), replies.Pong()),
    (answers.success(1), replies.Success(1)),
    (
        answers.error(2, ServerError.PRODUCER_FENCED, "ä"),
        replies.Refusal(2, ServerError.PRODUCER_FENCED, "ä"),
    ),
    (answers.partition_metadata_response(3, 0), replies.Partitions(request_id=3, partitions=0)),
    (
        answers.partition_metadata_failed(3, ServerError.TOPIC_NOT_FOUND, "no"),
        replies.Refusal(3, ServerError.TOPIC_NOT_FOUND, "no"),
    ),
    (
        answers.lookup_response(4, url="pulsar://b:1", proxy_through_service_url=True),
        replies.Located(
            request_id=4,
            url="pulsar://b:1",
            url_tls=None,
            redirect=False,
            authoritative=True,
            proxy_through_service_url=True,
        ),
    ),
    (
        answers.lookup_response(4, url="pulsar://b:1", proxy_through_service_url=False, redirect=True),
        replies.Located(
            request_id=4,
            url="pulsar://b:1",
            url_tls=None,
            redirect=True,
            authoritative=True,
            proxy_through_service_url=False,
        ),
    ),
    (
        answers.lookup_failed(4, ServerError.SERVICE_NOT_READY, "wait"),
        replies.Refusal(4, ServerError.SERVICE_NOT_READY, "wait"),
    ),
    (
        answers.topics_of_namespace(5, ["a", "b"], is_filtered=False),
        replies.TopicsOfNamespace(
            request_id=5,
            topics=["a", "b"],
            topics_hash=answers.topics_hash(frozenset(["a", "b"])),
            changed=True,
            filtered=False,
        ),
    ),
    (
        answers.producer_success(
            6, name="p", last_sequence_id=9, schema_version=b"12345678", topic_epoch=3, ready=False
        ),
        replies.ProducerSuccess(
            request_id=6,
            name="p",
            last_sequence_id=9,
            schema_version=b"12345678",
            topic_epoch=3,
            ready=False,
        ),
    ),
    (
        answers.producer_success(6, name="p"),
        replies.ProducerSuccess(
            request_id=6, name="p", last_sequence_id=-1, schema_version=b"", topic_epoch=None, ready=True
        ),
    ),
    (
        answers.send_error(7, -1, ServerError.CHECKSUM_ERROR, "bad"),
        replies.SendError(7, -1, ServerError.CHECKSUM_ERROR, "bad"),
    ),
    (commands.close_producer(7, request_id=commands.NO_REQUEST), replies.CloseProducer(producer_id=7)),
    (commands.close_consumer(8, request_id=commands.NO_REQUEST), replies.CloseConsumer(consumer_id=8)),
    (answers.ack_response(8, request_id=9), replies.AckResponse(8, 9)),
    (
        answers.ack_response(8, request_id=9, code=ServerError.METADATA_ERROR, message="no"),
        replies.Refusal(9, ServerError.METADATA_ERROR, "no"),
    ),
    (
        answers.active_consumer_change(8, is_active=True),
        replies.ActiveConsumerChange(consumer_id=8, is_active=True),
    ),
    (answers.reached_end_of_topic(8), replies.EndOfTopic(consumer_id=8)),
    (
        answers.last_message_id(10, last=EARLIEST, mark_delete=MessageId(1, 2, 3)),
        replies.LastMessageId(request_id=10, last=EARLIEST, mark_delete=MessageId(1, 2, 3)),
    ),
    (
        answers.schema_response(11, Schema(name="s", type=4, data=b"{}", properties={"a": "b"}), b"version1"),
        replies.SchemaFound(
            request_id=11,
            schema=Schema(name="s", type=4, data=b"{}", properties={"a": "b"}),
            version=b"version1",
        ),
    ),
    (answers.schema_version(12, b"version1"), replies.SchemaVersion(request_id=12, version=b"version1")),
    (
        answers.schema_refused(13, ServerError.TOPIC_NOT_FOUND, "no", creating=False),
        replies.Refusal(13, ServerError.TOPIC_NOT_FOUND, "no"),
    ),
    (
        answers.schema_refused(13, ServerError.INCOMPATIBLE_SCHEMA, "no", creating=True),
        replies.Refusal(13, ServerError.INCOMPATIBLE_SCHEMA, "no"),
    ),
    (
        answers.consumer_stats_response(
            14,
            consumer_name="c",
            type=SubType.KEY_SHARED,
            address="a",
            connected_since="now",
            permits=5,
            unacked_messages=6,
            blocked=True,
            backlog_entries=7,
            message_rate_out=1.5,
            bytes_rate_out=2.5,
            redeliver_rate=3.5,
            ack_rate=4.5,
        ),
        replies.ConsumerStats(
            request_id=14,
            consumer_name="c",
            type="Key_Shared",
            address="a",
            connected_since="now",
            permits=5,
            unacked_messages=6,
            blocked=True,
            backlog_entries=7,
            message_rate_out=1.5,
            bytes_rate_out=2.5,
            redeliver_rate=3.5,
            ack_rate=4.5,
        ),
    ),
    (
        answers.consumer_stats_failed(14, ServerError.CONSUMER_NOT_FOUND, "no"),
        replies.Refusal(14, ServerError.CONSUMER_NOT_FOUND, "no"),
    ),
    (
        answers.message_head(8, -1, -2, 3, 4, 2**70, 5, 5) + b"entry",
        replies.Message(8, -1, -2, 3, -1, 4, 2**70, 5, b"entry"),
    ),
    (
        answers.message_head(8, 1, 2, -1, 0, None, 5) + b"entry",
        replies.Message(8, 1, 2, -1, -1, 0, None, None, b"entry"),
    ),
    (
        answers.send_receipts(7, [(-1, -1, -1, -1, 0)])[0],
        replies.Receipt(7, -1, -1, -1, -1),
    ),
    (answers.send_receipts(7, [(8, 0, 9, 10, 0)])[0], replies.Receipt(7, 8, None, 9, 10)),
    (
        frame(
            pb.BaseCommand(
                type=pb.BaseCommand.TOPIC_MIGRATED,
                topicMigrated=pb.CommandTopicMigrated(
                    resource_id=1, resource_type=pb.CommandTopicMigrated.Producer
                ),
            )
        ),
        replies.Unknown(name="TOPIC_MIGRATED"),
    ),
]


@pytest.mark.parametrize(("data", "reply"), EVERY_REPLY)
def test_commands_of_the_brokers_builders_are_read(data: bytes, reply: replies.Reply) -> None:
    assert connected_engine().receive(data) == [reply]


@pytest.mark.row("S0.2")
@given(
    st.lists(st.sampled_from(EVERY_REPLY), max_size=12),
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
)
def test_replies_do_not_depend_on_how_the_bytes_are_cut(
    said: list[tuple[bytes, replies.Reply]], sizes: list[int]
) -> None:
    stream = b"".join(data for data, _ in said)
    engine = connected_engine()
    heard: list[replies.Reply] = []
    position = 0
    for size in itertools.cycle(sizes):
        if position >= len(stream):
            break
        heard += engine.receive(bytearray(stream[position : position + size]))
        position += size
    assert heard == [reply for _, reply in said]


UINT32 = st.integers(0, 2**32 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.integers(0, 2**64 - 1),
    INT64,
    INT64,
    st.integers(-1, 2**31 - 1),
    UINT32,
    st.none() | st.integers(0, 2**200),
    st.binary(min_size=1, max_size=50),
    st.none() | UINT32,
)
def test_a_message_of_any_numbers_is_read_as_it_was_written(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    partition: int,
    redelivery_count: int,
    ack_set: int | None,
    entry: bytes,
    epoch: int | None,
) -> None:
    head = answers.message_head(
        consumer_id, ledger_id, entry_id, partition, redelivery_count, ack_set, len(entry), epoch
    )
    assert connected_engine().receive(head + entry) == [
        replies.Message(
            consumer_id, ledger_id, entry_id, partition, -1, redelivery_count, ack_set, epoch, entry
        )
    ]


PLAIN = [
    answers.message_head(3, 300, 7, -1, 0, None, 5),
    answers.message_head(3, 2**62, 2**62, 4, 0, None, 5),
    answers.message_head(200, -1, 7, 200, 3, 2**70, 5, 1),
    answers.send_receipts(1, [(5000, 0, 1 << 40, 128, 0)])[0],
    answers.send_receipts(1, [(-1, 3, -1, -1, 0)])[0],
]


@given(
    st.sampled_from(PLAIN),
    st.lists(st.tuples(st.integers(8, 60), st.integers(0, 255), st.booleans()), max_size=3),
)
def test_hand_written_readers_agree_with_protobuf(
    written: bytes, changes: list[tuple[int, int, bool]]
) -> None:
    command = bytearray(written[8:])
    for at, byte, is_inserted in changes:
        place = (at - 8) % len(command)
        command[place : place + (not is_inserted)] = bytes((byte,))
    frame = Frame(bytes(command), b"entry")
    by_hand = plain_reply(frame)
    if by_hand is not None:
        assert by_hand == decode_reply(parse_command(frame.command), frame)
        assert type(by_hand) is type(decode_reply(parse_command(frame.command), frame))


@pytest.mark.parametrize(("index", "is_plain"), list(enumerate([True, True, False, True, False])))
def test_usual_shapes_are_read_by_hand(index: int, is_plain: bool) -> None:
    assert (plain_reply(Frame(PLAIN[index][8:], b"entry")) is not None) is is_plain


@given(st.binary(max_size=300), st.lists(st.sampled_from(EVERY_REPLY), max_size=3))
def test_garbage_raises_nothing_but_protocol_errors(
    garbage: bytes, before: list[tuple[bytes, replies.Reply]]
) -> None:
    stream = b"".join(data for data, _ in before) + garbage
    good = [reply for _, reply in before]
    try:
        heard: list[object] = list(connected_engine().receive(stream))
    except RemoteProtocolError as error:
        heard = list(error.events)
    assert heard[: len(good)] == good


@pytest.mark.parametrize(
    "kind",
    sorted(
        set(pb.BaseCommand.Type.values())
        - {pb.BaseCommand.PING, pb.BaseCommand.PONG, pb.BaseCommand.AUTH_CHALLENGE}
        - set(_NEVER_ASKED)
    ),
)
def test_a_command_without_its_required_fields_is_malformed_or_not_a_brokers(
    kind: pb.BaseCommand.Type.ValueType,
) -> None:
    command = pb.BaseCommand(type=kind).SerializeToString()
    data = payload_frame_head(command, 1) + b"x" if kind == pb.BaseCommand.MESSAGE else simple_frame(command)
    engine = connected_engine()
    with pytest.raises((MalformedCommand, UnexpectedCommand)):
        engine.receive(data)
    assert engine.state is ConnectionState.FAILED


@pytest.mark.parametrize(
    "sent",
    [commands.flow(1, 1), commands.subscribe("t", "s", type=SubType.SHARED, consumer_id=1, request_id=1)],
)
def test_a_clients_command_is_not_taken_from_a_broker(sent: bytes) -> None:
    with pytest.raises(UnexpectedCommand, match="client's command"):
        connected_engine().receive(sent)


def test_an_error_code_of_a_newer_broker_is_unknown_error() -> None:
    body = pb.CommandError(request_id=1, message="new").SerializePartialToString() + b"\x10\x7f"
    command = b"\x08\x0e" + bytes([(14 << 3) | 2, len(body)]) + body
    assert connected_engine().receive(simple_frame(command)) == [
        replies.Refusal(1, ServerError.UNKNOWN_ERROR, "new")
    ]
