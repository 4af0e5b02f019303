"""Change serialized protobuf messages field by field, so that most of them parse and reach the code behind the parser.

A message is a list of fields, and a field is a key (number and wire type) with its value. Bytes that parse as a message
are treated as a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.byte_mutations import INTEGERS, TOKENS, mutated_bytes
from vela.wire import varint

__all__ = ["Fields", "encoded", "filled", "mutated_fields", "parsed"]

Value: TypeAlias = "int | bytes | Fields"
Fields: TypeAlias = "list[tuple[int, Value]]"

_VARINT: Final = 0
_LENGTH: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_MOST_NESTING: Final = 4


def parsed(data: bytes, depth: int = 0) -> Fields | None:
    """Return the fields of a serialized message, or None if these bytes are no message."""
    fields: Fields = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire_type = key & 7
        value: Value
        if wire_type == _VARINT:
            value, at = _varint(data, at)
        elif wire_type == _LENGTH:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif wire_type in _FIXED:
            value, at = data[at : at + _FIXED[wire_type]], at + _FIXED[wire_type]
        else:
            return None
        if at > len(data) or key < 8:
            return None
        if wire_type == _LENGTH and isinstance(value, bytes) and len(value) > 1 and depth < _MOST_NESTING:
            value = parsed(value, depth + 1) or value
        fields.append((key, value))
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, len(data) + 1


def encoded(fields: Fields) -> bytes:
    """Return the serialized message."""
    data = bytearray()
    for key, value in fields:
        data += varint.encode(key)
        if isinstance(value, int):
            data += varint.encode(value)
            continue
        body = value if isinstance(value, bytes) else encoded(value)
        if key & 7 == _LENGTH:
            data += varint.encode(len(body))
        data += body
    return bytes(data)


def mutated_fields(random: Random, fields: Fields, others: Sequence[bytes]) -> Fields:
    """Return a copy with one change, at any depth."""
    changed = list(fields)
    chance = random.random()
    if not changed or chance < 0.12:
        changed.insert(int(random.random() * (len(changed) + 1)), _field(random))
        return changed
    at = int(random.random() * len(changed))
    key, value = changed[at]
    if isinstance(value, list) and chance < 0.85:
        changed[at] = key, mutated_fields(random, value, others)
    elif chance < 0.2:
        del changed[at]
    elif chance < 0.27:
        changed += [changed[at]] * (1 + random.getrandbits(2) ** 2)
    elif chance < 0.3:
        changed[at] = (1 + random.getrandbits(6)) << 3 | key & 7, value
    else:
        changed[at] = key, _value(random, value, others)
    return changed


def _field(random: Random) -> tuple[int, Value]:
    number = 1 + int(random.random() * 30)
    if random.getrandbits(1):
        return number << 3, INTEGERS[int(random.random() * len(INTEGERS))]
    return number << 3 | _LENGTH, TOKENS[int(random.random() * len(TOKENS))]


def _value(random: Random, value: Value, others: Sequence[bytes]) -> Value:
    if isinstance(value, int):
        return (
            INTEGERS[int(random.random() * len(INTEGERS))] if random.getrandbits(1) else random.getrandbits(6)
        )
    if isinstance(value, list):
        value = encoded(value)
    if random.random() < 0.3:
        return TOKENS[int(random.random() * len(TOKENS))]
    return mutated_bytes(random, value, others)


def filled(message: Message, depth: int = 0) -> None:
    """Set every field, at any depth, to make an example of a command that no recording has."""
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if depth >= _MOST_NESTING:
                continue
            inner = getattr(message, field.name)
            filled(inner.add() if field.is_repeated else inner, depth + 1)
            continue
        value = _plausible(field)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _plausible(field: Any) -> object:  # the two implementations of protobuf have no common type
    if field.type == FieldDescriptor.TYPE_STRING:
        return "public/default" if field.name == "namespace" else "fuzzed"
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"fuzzed"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return True
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return 1.0 if field.type == FieldDescriptor.TYPE_DOUBLE else 1
