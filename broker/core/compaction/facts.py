"""The facts about an entry that compaction needs."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from broker.core.position import Position

__all__ = ["CompactionEntry", "CompactionMessage", "Key"]

Key: TypeAlias = str | bytes  # Binary keys are bytes, and never equal a string key


class CompactionMessage(NamedTuple):
    """One message of an entry."""

    key: Key | None
    is_empty: bool  # An empty message deletes its key


class CompactionEntry(NamedTuple):
    """One entry. An unreadable entry has no messages, and compaction keeps it."""

    position: Position
    # Messages in batch order. None stands for a removed message or a marker.
    messages: tuple[CompactionMessage | None, ...]
    chunk_uuid: str | None = None  # Set for a chunk of a large message
    is_last_chunk: bool = False
