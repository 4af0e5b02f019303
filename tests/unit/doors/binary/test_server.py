"""The server engine: states, events, what it refuses, what it leaves out for old clients."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.binary.wire import answers, events
from broker.doors.binary.wire.engine import ServerEngine
from tests.unit.wire.binary.written import only_command, parse_frames
from vela.wire.binary import commands
from vela.wire.binary.enums import AccessMode, InitialPosition, ServerError, SubType, TopicsMode
from vela.wire.binary.frames import payload_frame_head, simple_frame
from vela.wire.binary.handshake import ConnectionState
from vela.wire.binary.schema import Schema
from vela.wire.errors import (
    FrameTooLarge,
    LocalProtocolError,
    MalformedCommand,
    RemoteProtocolError,
    UnexpectedCommand,
    WireError,
)
from vela.wire.message_id import EARLIEST, LATEST, MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb

MAX_MESSAGE_BYTES = 1_000_000


def new_engine() -> ServerEngine:
    return ServerEngine(server_version="Vela test", max_message_bytes=MAX_MESSAGE_BYTES)


def connected_engine(*, version: int = 21, client: str = "Pulsar-CPP-v3.7") -> ServerEngine:
    engine = new_engine()
    engine.receive(commands.connect(client_version=client, protocol_version=version))
    engine.send_connected()
    engine.data_to_send()
    return engine


def state_of(engine: ServerEngine) -> ConnectionState:
    """A call, so that mypy does not take the state for what it was before."""
    return engine.state


def frame(command: pb.BaseCommand) -> bytes:
    return simple_frame(command.SerializePartialToString())


def test_the_handshake() -> None:
    engine = new_engine()
    (event,) = engine.receive(
        commands.connect(
            client_version="Pulsar-CPP-v3.7", protocol_version=19, auth_method="token", auth_data=b"t"
        )
    )
    assert event == events.Connect(
        client_version="Pulsar-CPP-v3.7",
        protocol_version=19,
        auth_method="token",
        auth_data=b"t",
        proxy_to_broker_url=None,
        supports_auth_refresh=True,
    )
    assert engine.state is ConnectionState.CONNECTING
    engine.send_connected()
    assert state_of(engine) is ConnectionState.CONNECTED
    answer = only_command(engine.data_to_send()).connected
    assert (answer.server_version, answer.protocol_version) == ("Vela test", 19)
    assert answer.max_message_size == MAX_MESSAGE_BYTES
    assert not answer.feature_flags.supports_broker_entry_metadata
    assert engine.data_to_send() == []


def test_a_newer_client_is_answered_with_our_version() -> None:
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=99))
    engine.send_connected()
    assert only_command(engine.data_to_send()).connected.protocol_version == 21


def test_authentication_in_several_steps() -> None:
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=21, auth_method="sasl"))
    engine.send_auth_challenge("sasl", b"prove it")
    challenge = only_command(engine.data_to_send()).authChallenge.challenge
    assert (challenge.auth_method_name, challenge.auth_data) == ("sasl", b"prove it")
    assert engine.receive(
        commands.auth_response(client_version="x", protocol_version=21, auth_method="sasl", data=b"proof")
    ) == [events.AuthResponse(auth_method="sasl", auth_data=b"proof")]


@pytest.mark.parametrize("early", [commands.ping(), commands.flow(1, 1), b"".join(commands.send(1, 1, b"x"))])
def test_nothing_may_come_before_connect_or_before_its_answer(early: bytes) -> None:
    with pytest.raises(UnexpectedCommand, match="start"):
        new_engine().receive(early)
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=21))
    with pytest.raises(UnexpectedCommand, match="connecting"):
        engine.receive(early)


def test_a_second_connect_breaks_the_protocol() -> None:
    engine = connected_engine()
    with pytest.raises(UnexpectedCommand, match="CONNECT must not"):
        engine.receive(commands.connect(client_version="x", protocol_version=21))
    assert engine.state is ConnectionState.FAILED
    with pytest.raises(LocalProtocolError):
        engine.receive(commands.ping())


def test_connected_is_sent_once_and_only_when_asked_for() -> None:
    with pytest.raises(LocalProtocolError):
        new_engine().send_connected()
    with pytest.raises(LocalProtocolError):
        connected_engine().send_connected()


def test_a_refused_connection_gets_an_error_and_takes_nothing_more() -> None:
    engine = new_engine()
    engine.receive(commands.connect(client_version="x", protocol_version=21))
    engine.refuse_connection(ServerError.AUTHENTICATION_ERROR, "no")
    answer = only_command(engine.data_to_send()).error
    assert (answer.error, answer.request_id) == (pb.AuthenticationError, 2**64 - 1)
    assert engine.state is ConnectionState.FAILED


EVERY_EVENT: list[tuple[bytes, events.Event]] = [
    (commands.ping(), events.Ping()),
    (commands.pong(), events.Pong()),
    (
        commands.partition_metadata("persistent://a/b/c", request_id=1, create=False),
        events.PartitionMetadata(topic="persistent://a/b/c", request_id=1, create=False),
    ),
    (
        commands.lookup("t", request_id=2, authoritative=True),
        events.Lookup(topic="t", request_id=2, authoritative=True, listener_name=None),
    ),
    (
        commands.get_topics_of_namespace("a/b", request_id=3, mode=TopicsMode.ALL),
        events.GetTopicsOfNamespace(
            request_id=3, namespace="a/b", mode=TopicsMode.ALL, pattern=None, topics_hash=None
        ),
    ),
    (
        commands.producer(
            "t",
            producer_id=4,
            request_id=5,
            name="p",
            epoch=6,
            access_mode=AccessMode.EXCLUSIVE,
            user_provided_name=False,
            properties={"ключ": "v"},
            initial_subscription="s",
        ),
        events.OpenProducer(
            topic="t",
            producer_id=4,
            request_id=5,
            producer_name="p",
            user_provided_name=False,
            encrypted=False,
            properties={"ключ": "v"},
            schema=None,
            epoch=6,
            access_mode=AccessMode.EXCLUSIVE,
            topic_epoch=None,
            initial_subscription="s",
            in_transaction=False,
        ),
    ),
    (
        b"".join(commands.send(4, -1, b"entry", messages=3, highest_sequence_id=9, is_chunk=True)),
        events.Send(4, -1, 9, 3, True, False, b"entry"),
    ),
    (b"".join(commands.send(4, 8, b"entry")), events.Send(4, 8, None, 1, False, False, b"entry")),
    (commands.close_producer(4, request_id=7), events.CloseProducer(producer_id=4, request_id=7)),
    (
        commands.subscribe(
            "t",
            "s",
            type=SubType.KEY_SHARED,
            consumer_id=8,
            request_id=9,
            priority=2,
            durable=False,
            start=EARLIEST,
            initial_position=InitialPosition.EARLIEST,
            create_topic=False,
            properties={"a": "b"},
        ),
        events.Subscribe(
            topic="t",
            subscription="s",
            type=SubType.KEY_SHARED,
            consumer_id=8,
            request_id=9,
            consumer_name="",
            priority=2,
            durable=False,
            start=EARLIEST,
            start_ack_set=None,
            initial_position=InitialPosition.EARLIEST,
            rollback_s=0,
            create_topic=False,
            read_compacted=False,
            replicate_state=False,
            properties={"a": "b"},
            subscription_properties={},
            schema=None,
            key_shared_sticky=False,
            key_shared_ranges=[],
            key_shared_out_of_order=False,
            epoch=None,
        ),
    ),
    (commands.flow(8, 1000), events.Flow(8, 1000)),
    (
        commands.ack(8, [(1, 2, None), (1, 3, 0), (1, 4, 2**70), (-1, -1, None)], request_id=11),
        events.Ack(
            8,
            False,
            [
                events.AckId(1, 2, None),
                events.AckId(1, 3, 0),
                events.AckId(1, 4, 2**70),
                events.AckId(-1, -1, None),
            ],
            None,
            11,
            False,
        ),
    ),
    (
        commands.ack(8, [(1, 2, None)], cumulative=True),
        events.Ack(8, True, [events.AckId(1, 2, None)], None, None, False),
    ),
    (commands.redeliver(8), events.Redeliver(8, [], None)),
    (commands.redeliver(8, [(1, 2), (3, 4)]), events.Redeliver(8, [(1, 2), (3, 4)], None)),
    (
        commands.unsubscribe(8, request_id=12, force=True),
        events.Unsubscribe(consumer_id=8, request_id=12, force=True),
    ),
    (
        commands.seek(8, request_id=13, message_id=LATEST),
        events.Seek(consumer_id=8, request_id=13, message_id=LATEST, ack_set=None, publish_time_ms=None),
    ),
    (
        commands.seek(8, request_id=14, publish_time_ms=5),
        events.Seek(consumer_id=8, request_id=14, message_id=None, ack_set=None, publish_time_ms=5),
    ),
    (commands.close_consumer(8, request_id=15), events.CloseConsumer(consumer_id=8, request_id=15)),
    (commands.get_last_message_id(8, request_id=16), events.GetLastMessageId(consumer_id=8, request_id=16)),
    (commands.consumer_stats(8, request_id=17), events.ConsumerStats(consumer_id=8, request_id=17)),
]


@pytest.mark.parametrize(("data", "event"), EVERY_EVENT, ids=[type(e).__name__ for _, e in EVERY_EVENT])
def test_a_command_becomes_its_event(data: bytes, event: events.Event) -> None:
    assert connected_engine().receive(data) == [event]


@given(
    st.lists(st.sampled_from(EVERY_EVENT), max_size=12),
    st.lists(st.integers(0, 1500), max_size=10),
)
def test_any_cut_of_the_stream_gives_the_same_events(
    script: list[tuple[bytes, events.Event]], cuts: list[int]
) -> None:
    data = b"".join(item for item, _ in script)
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    engine = connected_engine()
    received: list[events.Event] = []
    for start, end in itertools.pairwise(edges):
        received += engine.receive(data[start:end])
    assert received == [event for _, event in script]


def test_subscribe_with_everything() -> None:
    body = pb.CommandSubscribe(
        topic="t",
        subscription="s",
        subType=pb.CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=2,
        start_message_id=pb.MessageIdData(ledgerId=5, entryId=6, batch_index=2, ack_set=[-4]),
        schema=pb.Schema(name="n", schema_data=b"d", type=pb.Schema.Avro),
        keySharedMeta=pb.KeySharedMeta(
            keySharedMode=pb.STICKY,
            hashRanges=[pb.IntRange(start=0, end=65535)],
            allowOutOfOrderDelivery=True,
        ),
        subscription_properties=[pb.KeyValue(key="k", value="v")],
        start_message_rollback_duration_sec=60,
        consumer_epoch=3,
    )
    (event,) = connected_engine().receive(
        frame(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=body))
    )
    assert isinstance(event, events.Subscribe)
    assert event.start == MessageId(5, 6, -1, 2)
    assert event.start_ack_set == 2**64 - 4
    assert event.schema == Schema(name="n", type=4, data=b"d", properties={})
    assert (event.key_shared_sticky, event.key_shared_ranges) == (True, [(0, 65535)])
    assert (event.subscription_properties, event.rollback_s, event.epoch) == ({"k": "v"}, 60, 3)


def test_transactional_commands_say_so() -> None:
    body = pb.CommandSend(producer_id=1, sequence_id=2, txnid_least_bits=0, txnid_most_bits=0)
    send = pb.BaseCommand(type=pb.BaseCommand.SEND, send=body).SerializeToString()
    ack = pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Individual,
        validation_error=pb.CommandAck.ChecksumMismatch,
        txnid_least_bits=0,
        txnid_most_bits=0,
    )
    engine = connected_engine()
    (sent,) = engine.receive(payload_frame_head(send, 1) + b"x")
    (acked,) = engine.receive(frame(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack)))
    assert isinstance(sent, events.Send)
    assert isinstance(acked, events.Ack)
    assert (sent.in_transaction, acked.in_transaction, acked.validation_error) == (True, True, 2)


UNBUILT = [
    pb.BaseCommand(type=pb.BaseCommand.NEW_TXN, newTxn=pb.CommandNewTxn(request_id=5)),
    pb.BaseCommand(
        type=pb.BaseCommand.WATCH_TOPIC_LIST,
        watchTopicList=pb.CommandWatchTopicList(
            request_id=5, watcher_id=1, namespace="a/b", topics_pattern=".*"
        ),
    ),
]


@pytest.mark.parametrize("command", UNBUILT, ids=lambda c: pb.BaseCommand.Type.Name(c.type))
def test_what_is_not_built_is_an_event_and_is_refused_in_its_own_shape(command: pb.BaseCommand) -> None:
    engine = connected_engine()
    (event,) = engine.receive(frame(command))
    assert event == events.Unsupported(name=pb.BaseCommand.Type.Name(command.type), request_id=5)
    assert isinstance(event, events.Unsupported)
    engine.send_unsupported(event, "not served here")
    answer = only_command(engine.data_to_send())
    assert (answer.error.error, answer.error.request_id) == (pb.NotAllowedError, 5)


def test_schemas_are_asked_for_and_answered() -> None:
    engine = connected_engine()
    schema = Schema(name="n", type=pb.Schema.Json, data=b"{}", properties={"a": "b"})
    asked = engine.receive(
        commands.get_schema("t", request_id=5, version=b"12345678")
        + commands.get_schema("t", request_id=6)
        + commands.get_or_create_schema("t", request_id=7, schema=schema)
    )
    assert asked == [
        events.GetSchema(topic="t", request_id=5, version=b"12345678"),
        events.GetSchema(topic="t", request_id=6, version=None),
        events.GetOrCreateSchema(topic="t", request_id=7, schema=schema),
    ]
    engine.send_schema(5, schema, b"12345678")
    found = only_command(engine.data_to_send()).getSchemaResponse
    assert (found.request_id, found.schema_version, found.schema.schema_data) == (5, b"12345678", b"{}")
    engine.send_schema_version(7, b"12345678")
    assert only_command(engine.data_to_send()).getOrCreateSchemaResponse.schema_version == b"12345678"
    engine.send_schema_refused(5, ServerError.TOPIC_NOT_FOUND, "none", creating=False)
    assert only_command(engine.data_to_send()).getSchemaResponse.error_code == pb.TopicNotFound
    engine.send_schema_refused(7, ServerError.INCOMPATIBLE_SCHEMA, "no", creating=True)
    refused = only_command(engine.data_to_send()).getOrCreateSchemaResponse
    assert (refused.error_code, refused.error_message) == (pb.IncompatibleSchema, "no")


def test_a_command_without_a_body_known_here_is_refused_silently() -> None:
    engine = connected_engine()
    (event,) = engine.receive(frame(pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_CLOSE)))
    assert event == events.Unsupported(name="SCALABLE_TOPIC_CLOSE", request_id=None)
    assert isinstance(event, events.Unsupported)
    engine.send_unsupported(event, "not served here")
    assert engine.data_to_send() == []


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
        (answers.send_receipt(1, 2, ledger_id=3, entry_id=4), UnexpectedCommand, "broker's command"),
        (commands.lookup("@@", request_id=1).replace(b"@@", b"\xff\xfe"), MalformedCommand, "UTF-8"),
        (b"\x7f\xff\xff\xff\0\0\0\x04", FrameTooLarge, "limit"),
    ],
)
def test_what_breaks_the_protocol_is_named(data: bytes, error: type[RemoteProtocolError], said: str) -> None:
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
    engine.send_receipt(1, 2, ledger_id=3, entry_id=4)
    pending = engine.pending_bytes
    out = engine.data_to_send()
    assert any(buffer is entry for buffer in out)
    assert (sum(map(len, out)), engine.pending_bytes) == (pending, 0)
    (success, _), (message, payload), (receipt, _) = parse_frames(out)
    assert success.success.request_id == 1
    assert (message.message.redelivery_count, list(message.message.ack_set), payload) == (3, [6], entry)
    assert receipt.send_receipt.message_id.entryId == 4


def test_what_a_client_cannot_bear_is_left_out() -> None:
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


def test_the_remaining_answers() -> None:
    engine = connected_engine()
    engine.send_ping()
    engine.send_pong()
    engine.send_error(1, ServerError.CONSUMER_BUSY, "busy")
    engine.send_partition_metadata(2, 3)
    engine.send_partition_metadata_failed(2, ServerError.TOPIC_NOT_FOUND, "none")
    engine.send_lookup(4, url="pulsar://h:6650")
    engine.send_lookup_failed(4, ServerError.SERVICE_NOT_READY, "later")
    engine.send_topics_of_namespace(5, ["t"])
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
