"""Commands encoded by hand, with protobuf as the oracle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.binary.written import only_command, parse_frames
from vela.wire import ack_set as ack_sets
from vela.wire.binary import commands
from vela.wire.binary.enums import ServerError, ValidationError
from vela.wire.binary.frames import simple_frame
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import UINT64_MASK

UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ACK_SETS = st.none() | st.just(0) | st.integers(0, 2**1000)


def test_the_entry_of_a_send_is_not_copied() -> None:
    entry = b"entry" * 100
    assert commands.send(1, 2, entry)[1] is entry


def test_ping_and_pong_carry_their_empty_body() -> None:
    assert only_command(commands.ping()).HasField("ping")
    assert only_command(commands.pong()).HasField("pong")


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
def test_ack_equals_protobufs_bytes(
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
def test_redeliver_equals_protobufs_bytes(
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
