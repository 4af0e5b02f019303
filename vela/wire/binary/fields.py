"""Decoding that a client's and a broker's commands share. Every function raises MalformedCommand on bad input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from vela.wire.binary.schema import Schema
from vela.wire.errors import MalformedCommand
from vela.wire.message_id import MessageId
from vela.wire.pb import vela_pulsar_pb2 as pb
from vela.wire.varint import signed64

__all__ = [
    "complete",
    "message_id_of",
    "name_of",
    "parse_command",
    "properties_of",
    "schema_of",
    "text_of",
]

_parse: Final = pb.BaseCommand.FromString  # looking it up on the class each time costs 0.2 µs more


class _Body(Protocol):
    def IsInitialized(self) -> bool: ...  # noqa: N802 - protobuf's name


def parse_command(data: bytes) -> pb.BaseCommand:
    """Parse a serialized BaseCommand."""
    try:
        return _parse(data)
    except DecodeError:
        raise MalformedCommand("the command is not valid protobuf") from None


def complete(body: _Body, command: pb.BaseCommand) -> None:
    """Check that no required field is missing, because protobuf's parser accepts a message without them."""
    if not body.IsInitialized():
        if not command.HasField("type"):
            raise MalformedCommand("the command's type is missing or unknown")
        raise MalformedCommand(f"{name_of(command.type)} lacks a required field")


def name_of(kind: pb.BaseCommand.Type.ValueType) -> str:
    """Return the protocol's name of a command, such as "SUBSCRIBE"."""
    return pb.BaseCommand.Type.Name(kind)


def text_of(value: object) -> str:
    """Return a text field, or refuse it: protobuf's parser returns bytes for a string that is not UTF-8."""
    if not isinstance(value, str):
        raise MalformedCommand("a text field of the command is not UTF-8")
    return value


def properties_of(pairs: Iterable[pb.KeyValue]) -> dict[str, str]:
    """Return key-value pairs as a dict. If a key is repeated, its last value is used."""
    return {text_of(pair.key): text_of(pair.value) for pair in pairs}


def schema_of(body: pb.Schema) -> Schema:
    """Return a schema."""
    return Schema(
        name=text_of(body.name),
        type=body.type,
        data=body.schema_data,
        properties=properties_of(body.properties),
    )


def message_id_of(body: pb.MessageIdData) -> MessageId:
    """Return a message id, without its ack set and first chunk."""
    return MessageId(
        signed64(body.ledgerId), signed64(body.entryId), body.partition, body.batch_index, body.batch_size
    )
