"""The facts about an entry that compaction needs: the keys inside it, and which messages delete their key."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from broker.core.position import Position

__all__ = ["CompactionEntry", "CompactionMessage", "Key"]

Key: TypeAlias = str | bytes  # a string key, or the bytes of a binary one; the two are never equal


class CompactionMessage(NamedTuple):
    """One message of an entry."""

    key: Key | None
    is_empty: bool  # it has no value, and so deletes its key


class CompactionEntry(NamedTuple):
    """One entry. If `messages` is empty, the entry could not be read, and compaction keeps it unchanged."""

    position: Position
    # In batch order; None = an earlier compaction removed this message, or it is a marker.
    messages: tuple[CompactionMessage | None, ...]
    chunk_uuid: str | None = None  # of the large message that this entry is a part of
    is_last_chunk: bool = False
