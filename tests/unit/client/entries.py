"""Entries as producers send them, sound and damaged."""

from __future__ import annotations

import struct

import google_crc32c

from vela.wire.compression import Compression, compress
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata, SingleMessageMetadata

__all__ = ["PRODUCER", "batch", "compose", "damage", "group", "metadata", "sealed", "single"]

PRODUCER = "orders-1"


def metadata(**fields: object) -> MessageMetadata:
    """Return MessageMetadata with its required fields set."""
    found = MessageMetadata(producer_name=PRODUCER, sequence_id=7, publish_time=1_700_000_000_000)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def compose(head: MessageMetadata | bytes, payload: bytes, *, checksum: int | None = None) -> bytes:
    """Return an entry of these parts, with the right checksum unless another one is given."""
    serialized = head if isinstance(head, bytes) else head.SerializeToString()
    covered = struct.pack(">I", len(serialized)) + serialized + payload
    return (
        struct.pack(">2sI", b"\x0e\x01", google_crc32c.value(covered) if checksum is None else checksum)
        + covered
    )


def group(payload: bytes, **fields: object) -> bytes:
    """Return one member of a batch: size, SingleMessageMetadata, payload."""
    single_metadata = SingleMessageMetadata(payload_size=len(payload))
    for name, value in fields.items():
        setattr(single_metadata, name, value)
    serialized = single_metadata.SerializeToString()
    return struct.pack(">I", len(serialized)) + serialized + payload


def single(payload: bytes = b"one", codec: Compression = Compression.NONE, **fields: object) -> bytes:
    """Return an entry of one message sent alone."""
    head = metadata(**fields)
    if codec:
        head.compression = codec.value
        head.uncompressed_size = len(payload)
        payload = compress(codec, payload)
    return compose(head, payload)


def batch(
    payloads: list[bytes], codec: Compression = Compression.NONE, *, cut: int = 0, **fields: object
) -> bytes:
    """Return an entry of a batch. `cut` bytes are missing at the end of its payload."""
    head = metadata(num_messages_in_batch=len(payloads), **fields)
    body = b"".join(group(each, sequence_id=7 + index) for index, each in enumerate(payloads))
    body = body[: len(body) - cut]
    if codec:
        head.compression = codec.value
        head.uncompressed_size = len(body)
        body = compress(codec, body)
    return compose(head, body)


def sealed(payload: bytes, **fields: object) -> bytes:
    """Return an entry that is encrypted with somebody else's key."""
    head = metadata(**fields)
    head.encryption_keys.add(key="theirs", value=b"sealed")
    head.encryption_param = b"vector"
    return compose(head, payload)


def damage(entry: bytes, at: int = -1) -> bytes:
    """Return the entry with one bit changed."""
    changed = bytearray(entry)
    changed[at] ^= 1
    return bytes(changed)
