"""The facts that compaction needs about an entry."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from broker.core.position import Position

__all__ = ["CompactionEntry", "CompactionMessage", "Key"]

Key: TypeAlias = str | bytes


class CompactionMessage(NamedTuple):
    """One message of an entry."""

    key: Key | None
    is_empty: bool


class CompactionEntry(NamedTuple):
    """One entry. An unreadable entry has no messages, and compaction keeps it."""

    position: Position
    # Messages in batch order. None stands for a removed message or an internal marker.
    messages: tuple[CompactionMessage | None, ...]
    chunk_uuid: str | None = None  # Only the chunks of a large message have a uuid
    is_last_chunk: bool = False
