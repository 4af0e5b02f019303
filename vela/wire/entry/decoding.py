"""Decodes an entry into the messages that an application sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vela.wire.checksum import MAGIC, checksum_ok
from vela.wire.compression import decompress
from vela.wire.entry.batches import Message, group_head, properties_of, split_batch, text_of
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import (
    ChecksumMismatch,
    EntryEncrypted,
    EntryIsChunk,
    MetadataCorrupt,
    UncompressedSizeExceeded,
)
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata
from vela.wire.varint import signed64

__all__ = [
    "EncryptedEntry",
    "EncryptionKey",
    "Message",
    "OpenedEntry",
    "decode_encrypted",
    "decode_messages",
    "last_sequence_id",
    "open_entry",
    "single_message",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey:
    """One recipient's copy of the key that the payload is encrypted with."""

    name: str
    value: bytes  # itself encrypted for the recipient
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedEntry:
    """An entry that this client cannot decrypt, with everything that the owner of a key needs to decrypt it."""

    message: Message  # its payload is still encrypted, and may also be compressed and framed as a batch
    keys: tuple[EncryptionKey, ...]
    param: bytes
    algorithm: str
    compression: int  # `Compression`, or a codec unknown here
    uncompressed_size: int  # bytes, 0 = not said
    batch_size: int  # messages inside, 0 = not a batch


def decode_encrypted(entry: bytes) -> EncryptedEntry:
    """Decode an entry for which `decode_messages` raised EntryEncrypted. Raises MetadataCorrupt."""
    metadata, payload_offset = parse_metadata(entry)
    is_batch = metadata.HasField("num_messages_in_batch")
    return EncryptedEntry(
        message=single_message(metadata, entry[payload_offset:]),
        keys=tuple(
            EncryptionKey(
                name=text_of(key.key, MetadataCorrupt),
                value=key.value,
                metadata=properties_of(key.metadata, MetadataCorrupt),
            )
            for key in metadata.encryption_keys
        ),
        param=metadata.encryption_param,
        algorithm=text_of(metadata.encryption_algo, MetadataCorrupt),
        compression=metadata.compression,
        uncompressed_size=metadata.uncompressed_size,
        batch_size=metadata.num_messages_in_batch if is_batch else 0,
    )


class OpenedEntry(NamedTuple):
    """An entry whose checksum is right, with its payload decompressed."""

    metadata: MessageMetadata
    payload: bytes

    def messages(self) -> list[Message]:
        """Return the messages in batch order, without members that compaction removed. Raises BatchCorrupt."""
        if not self.metadata.HasField("num_messages_in_batch"):
            return [single_message(self.metadata, self.payload)]
        messages: list[Message] = []
        split_batch(self.metadata, self.payload, messages)
        return messages


def decode_messages(entry: bytes, *, max_message_bytes: int) -> list[Message]:
    """Return the messages of an entry in batch order, without members that compaction removed.

    Raises the errors of `open_entry`, and BatchCorrupt.
    """
    return open_entry(entry, max_message_bytes=max_message_bytes).messages()


def open_entry(entry: bytes, *, max_message_bytes: int) -> OpenedEntry:
    """Check an entry and decompress its payload.

    Checks in the receiver's order: checksum, metadata, sizes, decompression. Raises ChecksumMismatch, MetadataCorrupt,
    UncompressedSizeExceeded (the payload would be larger than `max_message_bytes`), DecompressionFailed,
    CodecUnavailable, EntryEncrypted, EntryIsChunk.
    """
    if not checksum_ok(entry):
        if entry[:2] != MAGIC:
            raise MetadataCorrupt("an entry must begin with the checksum magic 0x0e01: use with_checksum()")
        raise ChecksumMismatch("the entry's CRC32C does not match its bytes")
    metadata, payload_offset = parse_metadata(entry)
    if len(metadata.encryption_keys):
        raise EntryEncrypted("the payload is encrypted: only a consumer with the key can read it")
    if metadata.num_chunks_from_msg > 1:
        raise EntryIsChunk(f"chunk {metadata.chunk_id} of {metadata.num_chunks_from_msg}")
    payload = entry[payload_offset:]
    size_bytes = metadata.uncompressed_size if metadata.compression else len(payload)
    if size_bytes > max_message_bytes:
        raise UncompressedSizeExceeded(f"payload of {size_bytes} bytes, the limit is {max_message_bytes}")
    if metadata.compression:
        payload = decompress(metadata.compression, payload, uncompressed_bytes=size_bytes)
    return OpenedEntry(metadata, payload)


def last_sequence_id(entry: bytes, *, max_message_bytes: int) -> int:
    """Return the last sequence id that the messages of a batch state; the entry's own if they state none.

    For entries whose producer left the last sequence id out of the metadata. Reads only the framing of the batch.
    Raises MetadataCorrupt, UncompressedSizeExceeded, DecompressionFailed, CodecUnavailable, BatchCorrupt,
    EntryEncrypted.
    """
    metadata, payload_offset = parse_metadata(entry)
    if len(metadata.encryption_keys):
        raise EntryEncrypted("the payload is encrypted: only a consumer with the key can read it")
    payload = entry[payload_offset:]
    if metadata.compression:
        if metadata.uncompressed_size > max_message_bytes:
            raise UncompressedSizeExceeded(
                f"payload of {metadata.uncompressed_size} bytes, the limit is {max_message_bytes}"
            )
        payload = decompress(metadata.compression, payload, uncompressed_bytes=metadata.uncompressed_size)
    sequence_id = signed64(metadata.sequence_id)
    offset = 0
    for index in range(metadata.num_messages_in_batch):
        single, start = group_head(payload, offset, index)
        offset = start + max(0, single.payload_size)
        if single.HasField("sequence_id"):
            sequence_id = signed64(single.sequence_id)
    return sequence_id


def single_message(metadata: MessageMetadata, payload: bytes) -> Message:
    """Return the one message of an entry that is not a batch. Raises MetadataCorrupt."""
    return Message(
        payload,
        properties_of(metadata.properties, MetadataCorrupt),
        text_of(metadata.partition_key, MetadataCorrupt) if metadata.HasField("partition_key") else None,
        signed64(metadata.event_time),
        signed64(metadata.publish_time),
        -1,
        0,
        signed64(metadata.sequence_id),
        metadata.producer_name,
        metadata.ordering_key if metadata.HasField("ordering_key") else None,
        metadata.partition_key_b64_encoded,
        metadata.null_value,
        metadata.schema_version,
    )
