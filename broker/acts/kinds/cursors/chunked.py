"""Messages in chunks, under acts: each chunk is an entry and counts as a message, and only all of them make one."""

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

_MOST_CHUNKS: Final = 1000  # a plan looks at so many of one message


class ChunkPlace(NamedTuple):
    """One chunk of a large message."""

    position: Position
    uuid: str
    chunk_id: int  # from 0
    chunks: int

    @property
    def is_last(self) -> bool:
        """It completes its message."""
        return self.chunk_id + 1 >= self.chunks

    def __str__(self) -> str:
        return f"{self.position} is chunk {self.chunk_id + 1} of the {self.chunks} of one message"


async def chunk_at(topic: Topic, position: Position) -> ChunkPlace | None:
    """What an entry is a chunk of; None when it is none, or cannot be read. Safe to cancel."""
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
    """The last chunk of a message where nothing else stands between; None when something does, or it is not there."""
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
    """What is to be said of a cursor that comes to stand inside a message in chunks."""
    following = await chunk_at(topic, topic.log.ledgers.next_after(mark_delete))
    if following is not None and following.chunk_id:
        return (
            (
                f"{following}, whose beginning is passed: what is left of it reaches no application, and consumers"
                " acknowledge it a while after"
            ),
        )
    passed = await chunk_at(topic, mark_delete)
    if passed is not None and not passed.is_last:
        return (
            (
                f"{passed}, and the others are not passed: they reach no application, and consumers acknowledge them a"
                " while after"
            ),
        )
    return ()
