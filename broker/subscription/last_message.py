"""Find the last message that a consumer can get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.position import Position

if TYPE_CHECKING:
    from broker.log.compaction.view import CompactedView
    from broker.log.reader import TopicReader
    from broker.log.topic_log import TopicLog

__all__ = ["LastMessages"]

_NONE: Final = (Position(-1, -1), 0)


class LastMessages:
    """Finds the last message of one topic."""

    def __init__(self, log: TopicLog, reader: TopicReader, compacted: CompactedView) -> None:
        self._log = log
        self._reader = reader
        self._compacted = compacted

    async def find(self, *, read_compacted: bool) -> tuple[Position, int]:
        """Return the position of the last message, and its number in the batch, counted from 1.

        The number is 0 if the message is not in a batch.
        """
        while True:
            position = self._log.ledgers.last_position()
            horizon = self._compacted.horizon if read_compacted else None
            if horizon is not None and (position.entry_id < 0 or position <= horizon):
                return await self._last_kept()
            if position.entry_id < 0:
                return _NONE
            entry = self._log.cached_entry(position)
            if entry is None:
                found = await self._reader.read_chosen([position])
                if not found:  # The entry was trimmed before the read
                    continue
                (entry,) = found
            return position, entry.messages if entry.is_batch else 0

    async def _last_kept(self) -> tuple[Position, int]:
        found = await self._compacted.last_message()
        if found is None:
            return _NONE
        entry, index = found
        return Position(entry.ledger_id, entry.entry_id), index + 1
