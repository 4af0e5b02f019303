"""Find large messages that a cursor move would cut in two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.entry import FLAG_CHUNK
from broker.core.position import Position
from broker.log.reader import GapInLog
from vela.wire.entry import parse_header
from vela.wire.errors import MetadataCorrupt

if TYPE_CHECKING:
    from broker.topics.topic import Topic

__all__ = ["ChunkPlace", "chunk_at", "end_of_message", "notes_on_chunks"]

_MOST_CHUNKS: Final = 1000


class ChunkPlace(NamedTuple):
    """One chunk of a large message."""

    position: Position
    uuid: str
    chunk_id: int  # Counted from 0
    chunks: int

    @property
    def is_last(self) -> bool:
        """Whether the chunk is the last of its message."""
        return self.chunk_id + 1 >= self.chunks

    def __str__(self) -> str:
        return f"{self.position} is chunk {self.chunk_id + 1} of {self.chunks} of a message"


async def chunk_at(topic: Topic, position: Position) -> ChunkPlace | None:
    """Return the chunk at a position, or None if the entry is not a chunk or cannot be read."""
    if not topic.log.ledgers.contains(position):
        return None
    try:
        found = await topic.reader.read_chosen([position])
    except GapInLog:
        return None
    if not found or not found[0].flags & FLAG_CHUNK:
        return None
    try:
        header = parse_header(found[0].data)
    except MetadataCorrupt:
        return None
    return ChunkPlace(position, header.chunk_uuid or "", header.chunk_id, header.num_chunks)


async def end_of_message(topic: Topic, chunk: ChunkPlace) -> Position | None:
    """Return the position of a message's last chunk.

    Return None if the chunks are not in consecutive entries, or if the last chunk is too far away.
    """
    at = chunk
    while not at.is_last:
        following = await chunk_at(topic, topic.log.ledgers.next_after(at.position))
        if following is None or (following.uuid, following.chunk_id) != (chunk.uuid, at.chunk_id + 1):
            return None
        if following.chunk_id - chunk.chunk_id > _MOST_CHUNKS:
            return None
        at = following
    return at.position


async def notes_on_chunks(topic: Topic, mark_delete: Position) -> tuple[str, ...]:
    """Return warnings about a cursor that would end inside a chunked message."""
    following = await chunk_at(topic, topic.log.ledgers.next_after(mark_delete))
    if following is not None and following.chunk_id:
        return (
            (
                f"{following}, and its first chunks are skipped: applications never get this message, and consumers"
                " acknowledge the remaining chunks after a while"
            ),
        )
    passed = await chunk_at(topic, mark_delete)
    if passed is not None and not passed.is_last:
        return (
            (
                f"{passed}, and the chunks after it are not skipped: applications never get this message, and consumers"
                " acknowledge the remaining chunks after a while"
            ),
        )
    return ()
