"""Compaction keeps the latest message of each key. An empty message deletes its key.

If the last chunk of a large message is missing, the other chunks are kept, because the last chunk may come later in
the log.
"""

from __future__ import annotations

from typing import Final

from broker.core.compaction.facts import CompactionEntry, Key
from broker.core.position import Position

__all__ = ["WHOLE", "LatestByKey"]

WHOLE: Final = None
_LEDGER_SHIFT: Final = 88
_ENTRY_SHIFT: Final = 24  # A batch has fewer than 2**24 messages


class LatestByKey:
    """The latest message of each key. If `retain_keyless` is true, messages without a key are kept."""

    def __init__(self, *, retain_keyless: bool) -> None:
        self._retain_keyless = retain_keyless
        # The value is the uuid of a message sent in chunks, and the result of `_place` for any other message.
        self._latest: dict[Key, int | str] = {}
        self._unfinished: set[str] = set()  # Uuids of large messages whose last chunk is missing

    def __len__(self) -> int:
        return len(self._latest)

    def see(self, entry: CompactionEntry) -> None:
        """Record an entry's messages. Make all calls in log order, before the first call of `kept`."""
        if entry.chunk_uuid is not None:
            self._see_chunk(entry, entry.chunk_uuid)
            return
        latest = self._latest
        for index, message in enumerate(entry.messages):
            if message is None or message.key is None:
                continue
            if message.is_empty:
                latest.pop(message.key, None)
            else:
                latest[message.key] = _place(entry.position, index)

    def know(self, key: Key, position: Position, index: int) -> None:
        """Record a message that is known to be the latest of its key."""
        self._latest[key] = _place(position, index)

    def _see_chunk(self, entry: CompactionEntry, uuid: str) -> None:
        if not entry.is_last_chunk:
            self._unfinished.add(uuid)
            return
        self._unfinished.discard(uuid)
        for message in entry.messages:
            if message is not None and message.key is not None:
                self._latest[message.key] = uuid

    def kept(self, entry: CompactionEntry) -> tuple[int, ...] | None:
        """Return the indexes of the messages that stay, or WHOLE if the entry stays unchanged."""
        if not entry.messages or entry.chunk_uuid in self._unfinished:
            return WHOLE
        present = 0
        kept: list[int] = []
        for index, message in enumerate(entry.messages):
            if message is None:
                continue
            present += 1
            if message.key is None:
                stays = self._retain_keyless
            elif entry.chunk_uuid is not None:
                stays = self._latest.get(message.key) == entry.chunk_uuid
            else:
                stays = self._latest.get(message.key) == _place(entry.position, index)
            if stays:
                kept.append(index)
        return WHOLE if kept and len(kept) == present else tuple(kept)


def _place(position: Position, index: int) -> int:
    return position.ledger_id << _LEDGER_SHIFT | position.entry_id << _ENTRY_SHIFT | index
