"""Make entries as clients other than Vela's make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vela.wire.checksum import MAGIC
from vela.wire.entry import with_checksum
from vela.wire.entry.header import parse_metadata
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata, SingleMessageMetadata

__all__ = ["batch_without_highest", "chunk", "encrypted", "single"]


def _entry(metadata: MessageMetadata, payload: bytes) -> bytes:
    head = metadata.SerializeToString()
    entry = with_checksum(len(head).to_bytes(4, "big") + head + payload)
    assert entry[:2] == MAGIC
    return entry


def single(producer_name: str, sequence_id: int, payload: bytes = b"") -> bytes:
    """Return an entry of one message. Its payload is its sequence id unless given."""
    metadata = MessageMetadata(producer_name=producer_name, sequence_id=sequence_id, publish_time=1)
    return _entry(metadata, payload or b"%d" % sequence_id)


def batch_without_highest(producer_name: str, sequence_ids: Sequence[int]) -> bytes:
    """Return a batch as the C++, Python and Go clients make it.

    Its metadata has the first sequence id only, so the highest one must be read from the last message.
    """
    metadata = MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_ids[0],
        publish_time=1,
        num_messages_in_batch=len(sequence_ids),
    )
    payload = b""
    for sequence_id in sequence_ids:
        body = b"%d" % sequence_id
        one = SingleMessageMetadata(payload_size=len(body), sequence_id=sequence_id).SerializeToString()
        payload += len(one).to_bytes(4, "big") + one + body
    return _entry(metadata, payload)


def chunk(
    producer_name: str, sequence_id: int, chunk_id: int, chunks: int, payload: bytes = b"", **others: Any
) -> bytes:
    """Return one part of a large message. `others` are more fields of its metadata; None leaves a field out."""
    fields: dict[str, Any] = {
        "producer_name": producer_name,
        "sequence_id": sequence_id,
        "publish_time": 1,
        "uuid": f"{producer_name}-{sequence_id}",
        "chunk_id": chunk_id,
        "num_chunks_from_msg": chunks,
        "total_chunk_msg_size": chunks,
    }
    return _entry(MessageMetadata(**(fields | others)), payload or b"%d" % chunk_id)


def encrypted(entry: bytes, *, key_name: str = "finance-2026") -> bytes:
    """Return the entry with metadata that marks its payload as encrypted."""
    metadata, payload_offset = parse_metadata(entry)
    metadata.encryption_keys.add(key=key_name, value=b"wrapped")
    return _entry(metadata, entry[payload_offset:])
