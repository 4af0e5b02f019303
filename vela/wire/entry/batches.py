"""Splits the payload of a batch into its messages.

The payload has a group for each message: size u32, SingleMessageMetadata, the message's payload. A producer's batches
are mostly long runs of groups that differ only in payload and sequence id. One `struct` cuts a run in C. For a message
of 100 bytes this takes 0.45 µs. Parsing every SingleMessageMetadata would take 2.6 µs.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from vela.wire import varint
from vela.wire.errors import BatchCorrupt, EntryCorrupt
from vela.wire.pb.vela_pulsar_pb2 import KeyValue, MessageMetadata, SingleMessageMetadata
from vela.wire.varint import signed64

__all__ = ["Message", "group_head", "properties_of", "split_batch", "text_of"]

_U32: Final = struct.Struct(">I")
_parse_single: Final = SingleMessageMetadata.FromString  # each look-up on the class costs 0.2 µs more
_PAYLOAD_SIZE: Final = b"\x18"
_SEQUENCE_ID: Final = b"\x40"
_LOW_BITS: Final = 0x7F  # the bits of a varint's byte that hold the number; the eighth says that more follow
_new: Final = tuple.__new__  # saves 0.25 µs a message, compared with the named tuple's constructor


class Message(NamedTuple):
    """One message of an entry. A named tuple (0.4 µs), not a frozen dataclass (1.3 µs): a batch can have thousands."""

    payload: bytes
    properties: dict[str, str]
    key: str | None
    event_time_ms: int  # 0 = none
    publish_time_ms: int
    batch_index: int  # -1 when the entry is not a batch
    batch_size: int  # 0 when the entry is not a batch
    sequence_id: int
    producer_name: str
    ordering_key: bytes | None
    key_b64: bool = False  # `key` is the base64 text of a binary key
    null_value: bool = False  # sent as "no value": the payload is empty
    schema_version: bytes = b""  # the bytes that the broker gave to the producer, empty = none


def split_batch(metadata: MessageMetadata, payload: bytes, messages: list[Message]) -> None:
    """Append the messages of a batch in order, without members that compaction removed.

    `payload` is decrypted and decompressed. Raises BatchCorrupt; `messages` then has the messages before the damage.
    """
    batch_size = metadata.num_messages_in_batch
    if batch_size < 1:
        raise BatchCorrupt(f"a batch of {batch_size} messages")
    offset = index = 0
    while index < batch_size:
        single, start = group_head(payload, offset, index)
        end = start + single.payload_size
        if single.payload_size < 0 or end > len(payload):
            raise BatchCorrupt(f"message {index} of the batch goes beyond the payload")
        if not single.compacted_out:
            messages.append(_member(metadata, single, payload[start:end], index))
        head = b"%b%b%b%b" % (
            payload[offset : offset + 4],
            _PAYLOAD_SIZE,
            varint.encode(single.payload_size),
            _SEQUENCE_ID,
        )
        index += 1
        if (
            index < batch_size
            and payload.startswith(head, offset)
            and payload.startswith(head, end)
            and not single.compacted_out
        ):
            before = len(messages)
            end = _cut_run(metadata, payload, head, start - offset, end, messages)
            index += len(messages) - before
        offset = end
    if offset != len(payload):
        raise BatchCorrupt(
            f"{len(payload) - offset} bytes are left after the {batch_size} messages of the batch"
        )


def _cut_run(
    metadata: MessageMetadata,
    payload: bytes,
    head: bytes,
    head_bytes: int,
    offset: int,
    messages: list[Message],
) -> int:
    """Append the groups from `offset` on that are like the previous group, and return where they end.

    A group is like the previous one if it begins with `head` (sizes, and the tag of the sequence id) and its sequence
    id differs only in the lowest seven bits. Then nothing else can lie between head and payload.
    """
    last = messages[-1]
    batch_size, payload_bytes = last.batch_size, len(last.payload)
    sequence = varint.encode(last.sequence_id)
    if len(head) + len(sequence) != head_bytes:
        return offset  # something follows the sequence id, or it is not written in the shortest way
    tail, continued = sequence[1:], int(len(sequence) > 1)
    high = last.sequence_id & ~_LOW_BITS
    group = struct.Struct(f"{len(head)}sB{len(tail)}s{payload_bytes}s")
    index = last.batch_index + 1
    room = min((len(payload) - offset) // group.size, batch_size - index)
    publish_time_ms, producer_name = last.publish_time_ms, last.producer_name
    schema_version, append = last.schema_version, messages.append
    stretch = memoryview(payload)[offset : offset + room * group.size]
    for found, low, found_tail, body in group.iter_unpack(stretch):
        if found != head or found_tail != tail or low >> 7 != continued:
            break
        append(
            _new(
                Message,
                (
                    body,
                    {},
                    None,
                    0,
                    publish_time_ms,
                    index,
                    batch_size,
                    high | low & _LOW_BITS,
                    producer_name,
                    None,
                    False,
                    False,
                    schema_version,
                ),
            )
        )
        index += 1
    return offset + (index - last.batch_index - 1) * group.size


def _member(metadata: MessageMetadata, single: SingleMessageMetadata, payload: bytes, index: int) -> Message:
    has = single.HasField
    return Message(
        payload,
        properties_of(single.properties, BatchCorrupt),
        text_of(single.partition_key, BatchCorrupt) if has("partition_key") else None,
        signed64(single.event_time),
        signed64(metadata.publish_time),
        index,
        metadata.num_messages_in_batch,
        signed64(single.sequence_id) if has("sequence_id") else signed64(metadata.sequence_id) + index,
        metadata.producer_name,
        single.ordering_key if has("ordering_key") else None,
        single.partition_key_b64_encoded,
        single.null_value,
        metadata.schema_version,
    )


def group_head(payload: bytes, offset: int, index: int) -> tuple[SingleMessageMetadata, int]:
    """Return the metadata of the group at `offset` and the start of its payload. Raises BatchCorrupt."""
    if offset + 4 > len(payload):
        raise BatchCorrupt(f"the batch ends before message {index}")
    start = offset + 4 + _U32.unpack_from(payload, offset)[0]
    if start > len(payload):
        raise BatchCorrupt(f"the metadata of message {index} goes beyond the payload")
    try:
        single = _parse_single(payload[offset + 4 : start])
    except DecodeError:
        raise BatchCorrupt(f"the metadata of message {index} is not valid protobuf") from None
    if not single.IsInitialized():
        raise BatchCorrupt(f"the metadata of message {index} lacks a required field")
    return single, start


def properties_of(pairs: Collection[KeyValue], error: type[EntryCorrupt]) -> dict[str, str]:
    """Return the pairs as a dict. Raises `error` for text that is not UTF-8."""
    return {text_of(pair.key, error): text_of(pair.value, error) for pair in pairs} if pairs else {}


def text_of(value: object, error: type[EntryCorrupt]) -> str:
    """Return `value`. Raises `error` if it is not UTF-8: protobuf's parser returns bytes for such text."""
    if not isinstance(value, str):
        raise error("a key or property is not UTF-8")
    return value
