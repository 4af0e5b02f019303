"""Cut a message that is too large for the broker into several entries."""

from __future__ import annotations

from vela.message import MessageId

__all__ = ["ChunkedSend", "ChunkingImpossible", "split"]

_ENCRYPTION_ROOM_BYTES = 512  # roughly what one recipient's key, the parameter and the tag add to a chunk


class ChunkingImpossible(ValueError):
    """The metadata leaves no room for a payload in the largest entry that the broker accepts."""


class ChunkedSend:
    """State that the chunks of one message share until all are stored."""

    __slots__ = ("chunks", "first", "uuid")

    def __init__(self, uuid: str, chunks: int) -> None:
        self.uuid = uuid
        self.chunks = chunks
        self.first: MessageId | None = None  # where the first chunk was stored, None = not yet


def split(
    payload: bytes, *, metadata_bytes: int, max_message_bytes: int, encrypted: bool = False
) -> list[bytes]:
    """Cut a payload into pieces that fit beside `metadata_bytes` of metadata. Raises ChunkingImpossible."""
    room = max_message_bytes - metadata_bytes - (_ENCRYPTION_ROOM_BYTES if encrypted else 0)
    if room <= 0:
        raise ChunkingImpossible(
            f"properties and keys of {metadata_bytes} bytes leave no room in messages of {max_message_bytes}"
        )
    view = memoryview(payload)
    return [bytes(view[start : start + room]) for start in range(0, len(payload), room)]
