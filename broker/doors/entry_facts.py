"""Check chunks and compute entry flags before entries are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.entry import FLAG_BATCH, FLAG_CHUNK, FLAG_LAST_CHUNK, FLAG_MARKER, FLAG_ORDERING_KEY
from broker.core.errors import NotAllowed

if TYPE_CHECKING:
    from vela.wire.entry import EntryHeader

__all__ = ["check_chunk", "entry_flags"]


def entry_flags(header: EntryHeader) -> int:
    """Return the flags of an entry."""
    flags = FLAG_BATCH if header.is_batch else 0
    if header.marker_type is not None:
        flags |= FLAG_MARKER
    if header.ordering_key is not None:
        flags |= FLAG_ORDERING_KEY
    if header.chunk_uuid is not None and header.num_chunks > 1:
        flags |= FLAG_CHUNK
        if header.chunk_id == header.num_chunks - 1:
            flags |= FLAG_LAST_CHUNK
    return flags


def check_chunk(header: EntryHeader) -> None:
    """Raise NotAllowed for a chunk that no consumer could use."""
    if header.is_batch:
        raise NotAllowed("a chunk is never a batch: send large messages without batching")
    if header.chunk_uuid is None:
        raise NotAllowed("a chunk needs the uuid of its message")
    if not 0 <= header.chunk_id < header.num_chunks:
        raise NotAllowed(f"chunk {header.chunk_id} of {header.num_chunks}: chunks are numbered from 0")
