"""Turn the bytes of a delivery into its messages, or into the one reason why that is impossible.

The checks are, in order: checksum, metadata, announced size, decryption, size, decompression, batch. The first check
that fails gives the reason and the number of permits that the delivery has cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from vela.wire.binary.enums import ValidationError
from vela.wire.checksum import MAGIC, checksum_ok, with_checksum
from vela.wire.compression import decompress
from vela.wire.entry.batches import Message, split_batch
from vela.wire.entry.decoding import single_message
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import BatchCorrupt, DecompressionFailed, MetadataCorrupt, UncompressedSizeExceeded
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

__all__ = ["Damaged", "Decrypt", "OpenedEntry", "Undecryptable", "entry_cost", "join_chunks", "open_entry"]

Decrypt = Callable[[MessageMetadata, bytes], bytes]
"""Returns the decrypted payload. Any error means that it cannot be decrypted."""

# size of the smallest message in a batch: its metadata's size (u32), and metadata with only payload_size (two bytes)
_SMALLEST_GROUP_BYTES: Final = 6


class OpenedEntry(NamedTuple):
    """The content of a sound delivery."""

    metadata: MessageMetadata
    messages: list[Message]  # in batch order; empty for a chunk
    batch_size: int  # messages in the batch, including compacted and acked ones; 0 = not a batch
    charged: int  # permits that the broker took for it
    piece: bytes | None = None  # of a chunk: its payload, decrypted


class Damaged(Exception):
    """The entry must be discarded, once, with this reason."""

    def __init__(
        self,
        reason: ValidationError,
        charged: int,
        text: str,
        messages: list[Message] | None = None,
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.charged = charged  # permits that the broker took for it, as far as can be read
        self.messages: list[Message] = messages or []  # of a broken batch: the messages before the damage


class Undecryptable(Exception):
    """There is no key, or a wrong one. The consumer's failure action decides what happens to the entry."""

    def __init__(self, metadata: MessageMetadata, payload: bytes, charged: int, text: str) -> None:
        super().__init__(text)
        self.metadata = metadata
        self.payload = payload  # still encrypted
        self.charged = charged  # permits that the broker took for it


def open_entry(
    block: bytes,
    ack_set: int | None,
    *,
    max_message_bytes: int,
    max_uncompressed_bytes: int,
    decrypt: Decrypt | None = None,
) -> OpenedEntry:
    """Return the messages of a delivery, without compacted ones and those whose bit in `ack_set` is clear.

    `max_message_bytes` limits the decrypted payload, `max_uncompressed_bytes` its announced size after decompression.

    Raises Damaged, or Undecryptable for an encrypted payload that `decrypt` (None: no keys) cannot read.
    """
    if block[:2] != MAGIC:
        block = with_checksum(block)  # a producer may leave the checksum out
    elif not checksum_ok(block):
        raise Damaged(
            ValidationError.CHECKSUM_MISMATCH,
            entry_cost(block, ack_set),
            "its checksum does not match its bytes",
        )
    try:
        metadata, payload_offset = parse_metadata(block)
    except MetadataCorrupt as error:
        raise Damaged(ValidationError.CHECKSUM_MISMATCH, 1, str(error)) from None
    payload = block[payload_offset:]
    is_batch = metadata.HasField("num_messages_in_batch")  # even a value of 1 means batch framing
    batch_size = metadata.num_messages_in_batch if is_batch else 0
    charged = _charged(batch_size, ack_set)
    is_chunk = metadata.num_chunks_from_msg > 1 and not is_batch
    encrypted = len(metadata.encryption_keys) > 0
    # `join_chunks` checks the size of a message that was compressed before it was cut.
    declared = 0 if is_chunk else metadata.uncompressed_size
    if declared > max_uncompressed_bytes:
        raise _too_large(declared, max_uncompressed_bytes, charged)
    if encrypted:  # before the size check, because encryption makes the payload a little larger
        payload = _decrypted(metadata, payload, decrypt, charged)
    if len(payload) > max_message_bytes:
        raise _too_large(len(payload), max_message_bytes, charged)
    if is_chunk:
        return OpenedEntry(metadata, [], 0, charged, payload)
    if metadata.compression:
        payload = _decompressed(metadata, payload, charged)
    messages: list[Message] = []
    if not is_batch:
        try:
            messages.append(single_message(metadata, payload))
        except MetadataCorrupt as error:
            raise Damaged(ValidationError.CHECKSUM_MISMATCH, charged, str(error)) from None
        return OpenedEntry(metadata, messages, 0, charged)
    try:
        split_batch(metadata, payload, messages)
    except BatchCorrupt as error:
        raise Damaged(
            ValidationError.BATCH_DESERIALIZE_ERROR,
            charged,
            str(error),
            _wanted(messages, ack_set),
        ) from None
    return OpenedEntry(metadata, _wanted(messages, ack_set), batch_size, charged)


def join_chunks(metadata: MessageMetadata, payload: bytes, *, max_joined_bytes: int) -> Message:
    """Return the message whose joined chunks are `payload`. Raises Damaged, with the permits of the last chunk.

    `metadata` is the metadata of the last chunk. `max_joined_bytes` limits the decompressed size that it announces.
    """
    if metadata.compression:
        if metadata.uncompressed_size > max_joined_bytes:
            raise _too_large(metadata.uncompressed_size, max_joined_bytes, 1)
        payload = _decompressed(metadata, payload, 1)
    try:
        return single_message(metadata, payload)
    except MetadataCorrupt as error:
        raise Damaged(ValidationError.CHECKSUM_MISMATCH, 1, str(error)) from None


def _wanted(messages: list[Message], ack_set: int | None) -> list[Message]:
    if ack_set is None:
        return messages
    return [message for message in messages if ack_set >> message.batch_index & 1]


def _charged(batch_size: int, ack_set: int | None) -> int:
    """Return the permits that a delivery costs: its messages, without those that were acked before."""
    if batch_size <= 1:
        return 1
    return batch_size if ack_set is None else (ack_set & ((1 << batch_size) - 1)).bit_count()


def entry_cost(block: bytes, ack_set: int | None) -> int:
    """Return the permits that the broker took for a delivery that is damaged or must not be opened.

    If the metadata claims more messages than the payload has room for, the result is 1.
    """
    try:
        metadata, payload_offset = parse_metadata(block)
    except MetadataCorrupt:
        return 1
    batch_size = metadata.num_messages_in_batch
    room_bytes = metadata.uncompressed_size if metadata.compression else len(block) - payload_offset
    return _charged(batch_size, ack_set) if batch_size <= room_bytes // _SMALLEST_GROUP_BYTES else 1


def _too_large(size_bytes: int, limit_bytes: int, charged: int) -> Damaged:
    error = UncompressedSizeExceeded(f"a payload of {size_bytes} bytes, the limit is {limit_bytes}")
    return Damaged(ValidationError.UNCOMPRESSED_SIZE_CORRUPTION, charged, str(error))


def _decrypted(metadata: MessageMetadata, payload: bytes, decrypt: Decrypt | None, charged: int) -> bytes:
    if decrypt is None:
        raise Undecryptable(metadata, payload, charged, "this consumer has no crypto_key_reader")
    try:
        return decrypt(metadata, payload)
    except Exception as error:  # a key reader is the application's own code
        raise Undecryptable(metadata, payload, charged, str(error)) from error


def _decompressed(metadata: MessageMetadata, payload: bytes, charged: int) -> bytes:
    try:
        return decompress(metadata.compression, payload, uncompressed_bytes=metadata.uncompressed_size)
    except DecompressionFailed as error:
        raise Damaged(ValidationError.DECOMPRESSION_ERROR, charged, str(error)) from None
