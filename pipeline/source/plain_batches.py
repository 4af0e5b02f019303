"""Batches of plain messages as Arrow arrays, without an object for each message.

A message is plain if it has a payload and a sequence id, and nothing else: no key, no properties, no event time.
Producers encode it as a group: `size u32 | 0x18 payload size | 0x40 sequence id | payload`, with varints. If all
messages of a batch have one size, Arrow's kernels cut the batch; otherwise one loop finds where the payloads are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from vela.wire.varint import encode

__all__ = ["LEAST_MESSAGES", "PlainMessages", "plain_messages"]

LEAST_MESSAGES: Final = 32  # for fewer messages, Arrow's calls cost more than they save
_LOW_BITS: Final = 0x7F  # of a varint's byte; the eighth bit says that more bytes follow
_LOW: Final = pa.scalar(_LOW_BITS, pa.uint8())
_MORE_FOLLOW: Final = bytes(range(_LOW_BITS + 1, 256))
_PAYLOAD_SIZE: Final = 0x18
_SEQUENCE_ID: Final = 0x40
_HEAD_BYTES: Final = 4
_MOST_VARINT_BYTES: Final = 9  # a tenth byte would make the number negative


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMessages:
    """All messages of a batch, in order."""

    values: pa.BinaryArray
    sequence_ids: pa.Int64Array


def plain_messages(payload: bytes, batch_size: int) -> PlainMessages | None:
    """Return a batch's messages; None if one is not plain, or if the batch is damaged or small (LEAST_MESSAGES)."""
    if batch_size < LEAST_MESSAGES:
        return None
    return _of_one_size(payload, batch_size) or _of_any_size(payload, batch_size)


def _of_one_size(payload: bytes, batch_size: int) -> PlainMessages | None:
    group_bytes, rest = divmod(len(payload), batch_size)
    first = _group(payload, 0)
    if rest or first is None or first[1] != group_bytes:
        return None
    start, end, _ = first
    payload_bytes = end - start
    head = payload[:_HEAD_BYTES] + b"%c%b%c" % (_PAYLOAD_SIZE, encode(payload_bytes), _SEQUENCE_ID)
    for index, octet in enumerate(head):
        if payload[index::group_bytes] != b"%c" % octet * batch_size:  # the octets at one place of all groups
            return None
    sequence_ids = pa.scalar(0, pa.int64())
    for index in range(len(head), start):
        octets = payload[index::group_bytes]
        if octets.translate(None, _MORE_FOLLOW) if index < start - 1 else not octets.isascii():
            return None
        array = pa.Array.from_buffers(pa.uint8(), batch_size, [None, pa.py_buffer(octets)])
        bits = pc.bit_wise_and(array, _LOW).cast(pa.int64())
        sequence_ids = pc.add(sequence_ids, pc.shift_left(bits, 7 * (index - len(head))))
    groups = pa.Array.from_buffers(pa.binary(group_bytes), batch_size, [None, pa.py_buffer(payload)])
    values = pc.binary_slice(groups, start, group_bytes).cast(pa.binary())
    return PlainMessages(values=values, sequence_ids=sequence_ids)


def _of_any_size(payload: bytes, batch_size: int) -> PlainMessages | None:
    bounds, sequence_ids = [0], []
    offset = 0
    for _ in range(batch_size):
        group = _group(payload, offset)
        if group is None:
            return None
        start, offset, sequence_id = group
        bounds += (start, offset)
        sequence_ids.append(sequence_id)
    if offset != len(payload):
        return None
    # Heads and payloads alternate, so every second piece is a payload. Pieces are views, and `take` copies payloads.
    pieces = pa.Array.from_buffers(
        pa.binary(),
        2 * batch_size,
        [None, pa.array(bounds, pa.int32()).buffers()[1], pa.py_buffer(payload)],
    )
    odd = pa.array(range(1, 2 * batch_size, 2), pa.int32())
    return PlainMessages(values=pieces.take(odd), sequence_ids=pa.array(sequence_ids, pa.int64()))


def _group(payload: bytes, offset: int) -> tuple[int, int, int] | None:
    """Return where the payload of the group at `offset` begins and ends, and its sequence id; None if not plain."""
    try:
        position = offset + _HEAD_BYTES
        if payload[offset:position] != b"\x00\x00\x00%c" % payload[position - 1]:
            return None
        start = position + payload[position - 1]
        if payload[position] != _PAYLOAD_SIZE:
            return None
        position += 1
        size = payload[position]
        if size > _LOW_BITS:
            size, position = _varint(payload, position)
        position += 1
        if payload[position] != _SEQUENCE_ID:
            return None
        position += 1
        sequence_id = payload[position]
        if sequence_id > _LOW_BITS:
            sequence_id, position = _varint(payload, position)
    except (IndexError, ValueError):
        return None
    end = start + size
    return (start, end, sequence_id) if position + 1 == start and end <= len(payload) else None


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return a varint and the place of its last byte. Raises IndexError if it is cut off, ValueError if too long."""
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        octet = payload[position + index]
        value |= (octet & _LOW_BITS) << 7 * index
        if octet <= _LOW_BITS:
            return value, position + index
    raise ValueError("a varint is too long")
