"""Plain SENDs: what is decoded without protobuf is exactly what protobuf decodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.binary.wire import events
from broker.doors.binary.wire.decoding import decode_event, decode_plain_send
from tests.unit.doors.binary.engines import connected_engine, new_engine
from vela.wire.binary import commands
from vela.wire.binary.fields import parse_command
from vela.wire.binary.frames import Frame
from vela.wire.errors import UnexpectedCommand
from vela.wire.pb import vela_pulsar_pb2 as pb

UINT64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"producer_id": st.integers(0, 300), "sequence_id": UINT64},
    optional={
        "num_messages": st.integers(-1, 300),
        "highest_sequence_id": UINT64,
        "is_chunk": st.booleans(),
        "txnid_least_bits": UINT64,
        "txnid_most_bits": UINT64,
    },
)


def send_of(fields: dict[str, Any]) -> bytes:
    """Return a SEND command with these fields."""
    return pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(**fields)).SerializeToString()


def require_same(command: bytes) -> None:
    """Check that protobuf decodes the command to the same event, if the quick way recognises it."""
    frame = Frame(command, b"entry")
    plain = decode_plain_send(frame)
    assert plain is None or plain == decode_event(parse_command(command), frame)


@given(FIELDS)
def test_what_is_recognised_is_what_protobuf_decodes(fields: dict[str, Any]) -> None:
    require_same(send_of(fields))


@given(FIELDS, st.data())
def test_a_changed_byte_is_decoded_as_protobuf_decodes_it(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    command = bytearray(send_of(fields))
    command[data.draw(st.integers(0, len(command) - 1))] = data.draw(st.integers(0, 255))
    require_same(bytes(command))


@given(st.binary(max_size=30))
def test_any_bytes_are_decoded_as_protobuf_decodes_them(data: bytes) -> None:
    require_same(data)
    require_same(b"\x08\x06\x32" + data)


@pytest.mark.parametrize("messages", [None, 1, 100])
@pytest.mark.parametrize("sequence_id", [0, 127, 128, 70_000, 2**63 - 1])
def test_usual_sends_are_recognised(sequence_id: int, messages: int | None) -> None:
    head, entry = commands.send(3, sequence_id, b"entry", messages=messages)
    assert decode_plain_send(Frame(head[8:], entry)) == events.Send(
        3, sequence_id, None, messages or 1, False, False, b"entry"
    )


def test_a_send_without_an_entry_is_not_plain() -> None:
    assert decode_plain_send(Frame(send_of({"producer_id": 1, "sequence_id": 2}), None)) is None


def test_a_plain_send_is_refused_before_the_client_is_admitted() -> None:
    head, entry = commands.send(0, 0, b"entry")
    with pytest.raises(UnexpectedCommand, match="SEND must not be sent"):
        new_engine().receive(head + entry)
    assert connected_engine().receive(head + entry) == [events.Send(0, 0, None, 1, False, False, b"entry")]
