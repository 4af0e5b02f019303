"""The second pass of a compaction, after a first pass in Spark. The result of the first pass is the survey."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.core.compaction.latest import LatestByKey
from broker.core.errors import NotAllowed
from broker.core.position import Position
from broker.log.compaction.entries import compaction_entry
from broker.storage.log import compaction_surveys as store
from broker.storage.pool import repeat_until_done
from broker.topics.compaction.passes import Stayed, stayed

if TYPE_CHECKING:
    from broker.core.compaction.facts import CompactionEntry, Key
    from broker.core.entry import StoredEntry
    from broker.storage.log.compaction_surveys import LatestOfKey, Survey
    from broker.storage.pool import ConnectionPool

__all__ = ["SurveyedPass"]


class SurveyedPass:
    """Runs the second pass."""

    def __init__(
        self, survey: Survey, pool: ConnectionPool, *, retain_keyless: bool, max_message_bytes: int
    ) -> None:
        self._survey = survey
        self._pool = pool
        self._retain_keyless = retain_keyless
        self._max_message_bytes = max_message_bytes

    async def stays(self, piece: Sequence[StoredEntry]) -> Stayed:
        """Return the entries that stay. Raises NotAllowed if the survey does not match the log."""
        decoded, wanted = await asyncio.to_thread(self._decoded, piece)
        survey_id = self._survey.survey_id
        found = await repeat_until_done(
            self._pool, lambda c: store.keys(c, survey_id, list(wanted)), what="reading the keys of a survey"
        )
        return await asyncio.to_thread(self._stayed, piece, decoded, found)

    def _decoded(self, piece: Sequence[StoredEntry]) -> tuple[list[CompactionEntry], set[bytes]]:
        decoded = [compaction_entry(entry, max_message_bytes=self._max_message_bytes) for entry in piece]
        keys = {
            _hashed(message.key)
            for entry in decoded
            for message in entry.messages
            if message is not None and message.key is not None
        }
        return decoded, keys

    def _stayed(
        self,
        piece: Sequence[StoredEntry],
        decoded: Sequence[CompactionEntry],
        found: Mapping[bytes, LatestOfKey],
    ) -> Stayed:
        latest = LatestByKey(retain_keyless=self._retain_keyless)
        for entry in decoded:
            for index, message in enumerate(entry.messages):
                if message is None or message.key is None:
                    continue
                of_key = found.get(_hashed(message.key))
                if of_key is None:
                    self._require_earlier(entry.position)
                    if entry.chunk_uuid is not None:
                        latest.see(entry)
                    else:
                        latest.know(message.key, entry.position, index)
                elif not of_key.is_deleted:
                    latest.know(message.key, of_key.position, of_key.batch_index)
        return stayed(piece, decoded, latest, max_message_bytes=self._max_message_bytes)

    def _require_earlier(self, position: Position) -> None:
        if position > self._survey.begin:
            raise NotAllowed(
                f"Spark has not seen the key of the message at {position}, so nothing is compacted: run the job again"
            )


def _hashed(key: Key) -> bytes:
    """Return the hash under which the survey stores a key."""
    data = key.encode() if isinstance(key, str) else b"\xff" + key
    return hashlib.md5(data, usedforsecurity=False).digest()
