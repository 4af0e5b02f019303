"""Every command of a client becomes its event, however its bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.binary.wire import events
from broker.doors.binary.wire.decoding import SLICE_IDS
from broker.doors.binary.wire.decoding import UNBUILT as REASONS
from tests.unit.doors.binary.engines import (
    EVERY_EVENT,
    connected_engine,
    frame,
    new_engine,
)
from tests.unit.wire.binary.written import only_command
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError
from vela.wire.binary.frames import payload_frame_head
from vela.wire.binary.schema import Schema
from vela.wire.errors import FrameTooLarge
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb


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


AN_ID = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.none() | st.integers(0, 2**70))


def read_slowly(data: bytes, calls: list[list[events.Event]], *, most: int) -> None:
    """Read the commands, at most `most` at a time, and append those of each call to `calls`."""
    engine = connected_engine()
    calls.append(engine.receive(data, most=most))
    while engine.has_more:
        calls.append(engine.receive(b"", most=most))


@given(
    st.lists(AN_ID, min_size=1, max_size=3),
    st.integers(1, 1000),
    st.none() | st.integers(0, 9),
    st.booleans(),
)
def test_a_long_ack_is_several_events_with_the_same_ids_and_one_request(
    few: list[tuple[int, int, int | None]], times: int, request_id: int | None, wants_all: bool
) -> None:
    data = commands.ack(8, few * times, request_id=request_id) + commands.ping()
    calls: list[list[events.Event]] = []
    read_slowly(data, calls, most=1_000_000 if wants_all else 1)
    found = [event for events_ in calls for event in events_]
    assert found[-1] == events.Ping()
    acks = [event for event in found if isinstance(event, events.Ack)]
    assert len(acks) == len(found) - 1
    assert [(i.ledger_id, i.entry_id, i.ack_set) for ack in acks for i in ack.ids] == few * times
    assert [ack.request_id for ack in acks] == [None] * (len(acks) - 1) + [request_id]
    assert all(len(ack.ids) <= SLICE_IDS or len(data) < 1200 for ack in acks)
    assert wants_all or max(len(events_) for events_ in calls) <= 1


def test_a_long_redelivery_is_several_events() -> None:
    ids = [(1, entry_id) for entry_id in range(3 * SLICE_IDS)]
    found = connected_engine().receive(commands.redeliver(8, ids))
    assert [
        position for event in found if isinstance(event, events.Redeliver) for position in event.positions
    ] == ids
    assert [event.is_continuation for event in found if isinstance(event, events.Redeliver)] == [
        False,
        True,
        True,
    ]


def test_a_long_cumulative_ack_stays_one_event_which_shows_that_it_has_several_ids() -> None:
    ids = [(1, entry_id, None) for entry_id in range(10 * SLICE_IDS + 1)]
    (found,) = connected_engine().receive(commands.ack(8, ids, cumulative=True, request_id=3))
    assert isinstance(found, events.Ack)
    assert (len(found.ids), found.request_id) == (2, 3)


def test_a_long_connect_is_admitted() -> None:
    engine = new_engine()
    engine.receive(
        commands.connect(client_version="x", protocol_version=21, auth_method="token", auth_data=b"t" * 5000)
    )
    engine.send_connected()


@given(st.integers(1, 40), st.integers(1, 20))
def test_events_before_a_bad_frame_come_first_however_few_are_asked_for(pings: int, most: int) -> None:
    calls: list[list[events.Event]] = []
    with pytest.raises(FrameTooLarge) as raised:
        read_slowly(commands.ping() * pings + b"\xff" * 16, calls, most=most)
    before = [event for events_ in calls for event in events_]
    assert [*before, *raised.value.events] == [events.Ping()] * pings


def test_a_subscribe_with_every_option_is_read() -> None:
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


def test_a_command_of_a_transaction_is_marked_as_one() -> None:
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
        type=pb.BaseCommand.END_TXN,
        endTxn=pb.CommandEndTxn(request_id=5),
    ),
]


@pytest.mark.parametrize("command", UNBUILT, ids=lambda c: pb.BaseCommand.Type.Name(c.type))
def test_an_unsupported_command_is_an_event_with_its_own_refusal(command: pb.BaseCommand) -> None:
    engine = connected_engine()
    (event,) = engine.receive(frame(command))
    assert event == events.Unsupported(
        name=pb.BaseCommand.Type.Name(command.type), reason="there are no transactions", request_id=5
    )
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
    assert event == events.Unsupported(
        name="SCALABLE_TOPIC_CLOSE", reason=REASONS[pb.BaseCommand.SCALABLE_TOPIC_CLOSE], request_id=None
    )
    assert isinstance(event, events.Unsupported)
    engine.send_unsupported(event, "not served here")
    assert engine.data_to_send() == []
