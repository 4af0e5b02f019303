"""The two passes of a compaction over a topic's messages. A piece is a list of consecutive entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.compaction.latest import WHOLE, LatestByKey
from broker.core.errors import TopicFenced
from broker.core.position import Position
from broker.log.compaction.entries import compaction_entry, without_messages
from broker.storage.log.compaction import Kept

if TYPE_CHECKING:
    from broker.core.compaction.facts import CompactionEntry
    from broker.core.entry import StoredEntry
    from broker.topics.topic import Topic

__all__ = ["Passes", "Stayed", "pieces", "stayed"]

_PIECE_ENTRIES: Final = 500
_PIECE_BYTES: Final = 512 * 1024


class Stayed(NamedTuple):
    """The result of the second pass over one piece."""

    entries: list[StoredEntry]
    kept: Kept
    removed_messages: int


class Passes:
    """Runs both passes, with all keys in memory. Call `see` for every piece, then `stays` for every piece."""

    def __init__(self, *, retain_keyless: bool, max_message_bytes: int) -> None:
        self._latest = LatestByKey(retain_keyless=retain_keyless)
        self._max_message_bytes = max_message_bytes

    @property
    def keys(self) -> int:
        """The number of keys in memory."""
        return len(self._latest)

    async def see(self, piece: Sequence[StoredEntry]) -> None:
        """Process a piece in the first pass."""
        await asyncio.to_thread(self._see, piece)

    async def stays(self, piece: Sequence[StoredEntry]) -> Stayed:
        """Process a piece in the second pass, and return the entries that stay in the compacted topic."""
        return await asyncio.to_thread(self._stays, piece)

    def _see(self, piece: Sequence[StoredEntry]) -> None:
        for entry in piece:
            self._latest.see(self._decoded(entry))

    def _stays(self, piece: Sequence[StoredEntry]) -> Stayed:
        decoded = [self._decoded(entry) for entry in piece]
        return stayed(piece, decoded, self._latest, max_message_bytes=self._max_message_bytes)

    def _decoded(self, entry: StoredEntry) -> CompactionEntry:
        return compaction_entry(entry, max_message_bytes=self._max_message_bytes)


def stayed(
    piece: Sequence[StoredEntry],
    decoded: Sequence[CompactionEntry],
    latest: LatestByKey,
    *,
    max_message_bytes: int,
) -> Stayed:
    """Return the entries that stay in the compacted topic."""
    entries: list[StoredEntry] = []
    messages = removed = 0
    for entry, facts in zip(piece, decoded, strict=True):
        kept = latest.kept(facts)
        present = sum(1 for message in facts.messages if message is not None)
        if kept is WHOLE:
            entries.append(entry)
            messages += present or entry.messages
            continue
        removed += present - len(kept)
        messages += len(kept)
        if kept:
            data = without_messages(entry.data, kept, max_message_bytes=max_message_bytes)
            entries.append(entry._replace(data=data))
    size_bytes = sum(len(entry.data) for entry in entries)
    return Stayed(entries, Kept(entries=len(entries), messages=messages, size_bytes=size_bytes), removed)


async def pieces(topic: Topic, through: Position) -> AsyncIterator[list[StoredEntry]]:
    """Yield the entries that the previous compaction kept, then the log's later entries up to `through`.

    Raises TopicFenced if the topic is closed.
    """
    view, ledgers = topic.compacted, topic.log.ledgers
    position = Position(0, 0)
    while view.horizon is not None and position <= view.horizon:
        # If the topic is deleted during the loop, only this check ends the loop.
        _require_open(topic)
        page = await view.read(position)
        position = page.end
        if page.entries:
            yield list(page.entries)
    limit = view.trim_limit
    position = ledgers.first_position() if limit is None else ledgers.next_after(limit)
    while position <= through and ledgers.contains(position):
        _require_open(topic)
        piece = await topic.reader.read_once(position, most=_PIECE_ENTRIES, more_bytes=_PIECE_BYTES)
        piece = [entry for entry in piece if Position(entry.ledger_id, entry.entry_id) <= through]
        if piece:
            yield piece
            position = Position(piece[-1].ledger_id, piece[-1].entry_id)
        position = ledgers.next_after(position)


def _require_open(topic: Topic) -> None:
    if not topic.is_open:
        raise TopicFenced(f"{topic.name} left memory; compact it again")
