"""Encodes messages as an entry, as a producer does."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from vela.wire.compression import Compression
from vela.wire.entry.sealing import Encrypt, compress_payload, seal
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata, SingleMessageMetadata

if TYPE_CHECKING:
    from vela.wire.entry.decoding import Message

__all__ = ["OutgoingMessage", "encode_batch", "encode_single"]

_U32: Final = struct.Struct(">I")

_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message to encode, alone or as a member of a batch."""

    payload: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    event_time_ms: int = 0  # 0 = none
    ordering_key: bytes | None = None
    key_b64: bool = False  # `key` is the base64 text of a binary key
    null_value: bool = False  # send it as "no value": the payload is empty

    @classmethod
    def copy_of(cls, message: Message, properties: Mapping[str, str]) -> Self:
        """Return a copy of a stored message with these properties instead of its own."""
        return cls(
            payload=message.payload,
            properties=properties,
            key=message.key,
            key_b64=message.key_b64,
            event_time_ms=message.event_time_ms,
            ordering_key=message.ordering_key,
            null_value=message.null_value,
        )


def encode_single(
    *,
    producer_name: str,
    sequence_id: int,
    publish_time_ms: int,
    payload: bytes,
    properties: Mapping[str, str] = _NO_PROPERTIES,
    key: str | None = None,
    event_time_ms: int = 0,
    deliver_at_ms: int | None = None,
    compression: Compression = Compression.NONE,
    ordering_key: bytes | None = None,
    key_b64: bool = False,
    schema_version: bytes = b"",
    null_value: bool = False,
    encrypt: Encrypt | None = None,
) -> bytes:
    """Encode one message as one entry. `key_b64`: `key` is the base64 text of a binary key.

    `null_value`: the message has no value, and its payload is empty.
    `encrypt` gets the compressed payload. Raises the errors of `encrypt`.
    """
    metadata = MessageMetadata(
        producer_name=producer_name, sequence_id=sequence_id, publish_time=publish_time_ms
    )
    for name, value in properties.items():
        metadata.properties.add(key=name, value=value)
    if key is not None:
        metadata.partition_key = key
        if key_b64:
            metadata.partition_key_b64_encoded = True
    if event_time_ms:
        metadata.event_time = event_time_ms
    if deliver_at_ms is not None:
        metadata.deliver_at_time = deliver_at_ms
    if ordering_key is not None:
        metadata.ordering_key = ordering_key
    if schema_version:
        metadata.schema_version = schema_version
    if null_value:
        metadata.null_value = True
    return seal(metadata, compress_payload(metadata, payload, compression), encrypt)


def encode_batch(
    messages: Sequence[OutgoingMessage],
    *,
    producer_name: str,
    sequence_id: int,
    publish_time_ms: int,
    compression: Compression = Compression.NONE,
    key: str | None = None,
) -> bytes:
    """Encode the messages as one entry. Their sequence ids count up from `sequence_id`.

    For key-based batching: `key` becomes the key of the whole entry, and Key_Shared routes by it.
    Raises ValueError if there are no messages.
    """
    if not messages:
        raise ValueError("a batch needs at least one message")
    metadata = MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_id,
        publish_time=publish_time_ms,
        num_messages_in_batch=len(messages),
        highest_sequence_id=sequence_id + len(messages) - 1,
    )
    if key is not None:
        metadata.partition_key = key
    parts: list[bytes] = []
    for index, message in enumerate(messages):
        single = _single_metadata(message, sequence_id + index).SerializeToString()
        parts += (_U32.pack(len(single)), single, message.payload)
    return seal(metadata, compress_payload(metadata, b"".join(parts), compression))


def _single_metadata(message: OutgoingMessage, sequence_id: int) -> SingleMessageMetadata:
    single = SingleMessageMetadata(payload_size=len(message.payload), sequence_id=sequence_id)
    for name, value in message.properties.items():
        single.properties.add(key=name, value=value)
    if message.key is not None:
        single.partition_key = message.key
        if message.key_b64:
            single.partition_key_b64_encoded = True
    if message.event_time_ms:
        single.event_time = message.event_time_ms
    if message.ordering_key is not None:
        single.ordering_key = message.ordering_key
    if message.null_value:
        single.null_value = True
    return single
