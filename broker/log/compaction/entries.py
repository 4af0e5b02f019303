"""Read entries for compaction, and rewrite batches from which messages are removed.

A removed message leaves a placeholder in its batch, so the other messages keep their batch indexes. Clients skip
placeholders.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from broker.core.compaction.facts import CompactionEntry, CompactionMessage, Key
from broker.core.entry import FLAG_CORRUPT, FLAG_MARKER
from broker.core.position import Position
from vela.wire.compression import Compression
from vela.wire.entry import EntryCorrupt, open_entry
from vela.wire.entry.batches import group_head
from vela.wire.entry.decoding import OpenedEntry
from vela.wire.entry.header import parse_metadata
from vela.wire.entry.sealing import compress_payload, seal
from vela.wire.errors import BatchCorrupt
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata, SingleMessageMetadata

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["compaction_entry", "last_kept_index", "without_messages"]


def _group(metadata: SingleMessageMetadata) -> bytes:
    serialized = metadata.SerializeToString()
    return len(serialized).to_bytes(4, "big") + serialized


_REMOVED: Final = _group(SingleMessageMetadata(payload_size=0, compacted_out=True))


def compaction_entry(entry: StoredEntry, *, max_message_bytes: int) -> CompactionEntry:
    """Return the key of each message in an entry, and whether the message deletes that key.

    The result for an unreadable entry has no messages.
    """
    position = Position(entry.ledger_id, entry.entry_id)
    if entry.flags & FLAG_MARKER:
        return CompactionEntry(position, (None,))
    if entry.flags & FLAG_CORRUPT:
        return CompactionEntry(position, ())
    metadata, payload_offset = parse_metadata(entry.data)
    if metadata.HasField("num_messages_in_batch"):
        return CompactionEntry(position, _of_batch(entry.data, max_message_bytes))
    size_bytes = metadata.uncompressed_size if metadata.compression else len(entry.data) - payload_offset
    message = CompactionMessage(_key(metadata), metadata.null_value or not size_bytes)
    if metadata.num_chunks_from_msg > 1:
        is_last = metadata.chunk_id + 1 >= metadata.num_chunks_from_msg
        return CompactionEntry(position, (message._replace(is_empty=False),), metadata.uuid, is_last)
    return CompactionEntry(position, (message,))


def _of_batch(data: bytes, max_message_bytes: int) -> tuple[CompactionMessage | None, ...]:
    try:
        opened = open_entry(data, max_message_bytes=max_message_bytes)
        return tuple(
            None
            if single.compacted_out
            else CompactionMessage(_key(single), single.null_value or not single.payload_size)
            for single, _ in _groups(opened)
        )
    except EntryCorrupt:
        return ()


def without_messages(data: bytes, kept: Collection[int], *, max_message_bytes: int) -> bytes:
    """Return a batch with only the messages at the indexes `kept`. Raises EntryCorrupt if the batch is unreadable."""
    opened = open_entry(data, max_message_bytes=max_message_bytes)
    groups = [group if index in kept else _REMOVED for index, (_, group) in enumerate(_groups(opened))]
    metadata = opened.metadata
    return seal(metadata, compress_payload(metadata, b"".join(groups), Compression(metadata.compression)))


def last_kept_index(entry: StoredEntry, *, max_message_bytes: int) -> int:
    """Return the index of the last message that compaction kept in a batch; -1 if the entry is not a batch.

    If the batch is unreadable or has no kept message, return the index of its last message.
    """
    if not entry.is_batch:
        return -1
    messages = _of_batch(entry.data, max_message_bytes)
    kept = [index for index, message in enumerate(messages) if message is not None]
    return kept[-1] if kept else entry.messages - 1


def _groups(opened: OpenedEntry) -> Iterator[tuple[SingleMessageMetadata, bytes]]:
    # Yields the metadata of each message, and all bytes of the message including the metadata.
    metadata, payload = opened
    offset = 0
    for index in range(metadata.num_messages_in_batch):
        single, start = group_head(payload, offset, index)
        end = start + single.payload_size
        if single.payload_size < 0 or end > len(payload):
            raise BatchCorrupt(f"message {index} of the batch goes beyond the payload")
        yield single, payload[offset:end]
        offset = end


def _key(metadata: MessageMetadata | SingleMessageMetadata) -> Key | None:
    if not metadata.HasField("partition_key"):
        return None
    key = metadata.partition_key
    if metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            return key
    return key
