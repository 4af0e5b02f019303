"""Drop segments without ledgers, and move the remaining ledgers out of segments that are mostly empty.

A segment is a pair of tables with the entries of many ledgers. Views show the entries of all segments. Entries are
copied in small pieces with pauses, so that appends need not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker.core.ledgers.segment_rules import SegmentUse, worth_copying
from broker.storage.log import lifetime as store

if TYPE_CHECKING:
    from broker.log.epochs import Epochs
    from broker.log.segments import Segments
    from broker.log.topic_log import TopicLog
    from broker.storage.pool import ConnectionPool

__all__ = ["SegmentDrops"]

logger = logging.getLogger(__name__)

PIECE_BYTES = 512 * 1024
PIECE_ENTRIES = 1000
_REST = 3  # Pause after a piece, as a multiple of the time that the piece took


class SegmentDrops:
    """Empties and drops old segments. Calls of `turn` must not overlap."""

    def __init__(
        self,
        pool: ConnectionPool,
        segments: Segments,
        epochs: Epochs,
        open_log: Callable[[str], Awaitable[TopicLog]],
    ) -> None:
        self._pool = pool
        self._segments = segments
        self._epochs = epochs
        self._open_log = open_log
        self._damaged: set[int] = set()
        self.segments = 0
        self.dropped = 0
        self.copied_entries = 0

    async def turn(self) -> bool:
        """Drop segments without ledgers, then empty and drop one other segment. Return True if there may be more to do.

        Raises psycopg.Error and the errors of `open_log`. Safe to repeat. Cancel a turn only when the broker stops.
        After a cancellation, an open log may have the wrong segment id for a ledger.
        """
        async with self._pool.use() as connection:
            uses = await store.segment_uses(connection)
            self.segments = await store.segment_count(connection)
        dropped = 0
        for use in uses:
            if not use.ledgers and await self._drop(use):
                dropped += 1
        chosen = worth_copying(
            (each for each in uses if each.segment_id not in self._damaged), self.segments - dropped
        )
        if chosen is None or not await self._empty(chosen):
            return dropped > 0
        return await self._drop(chosen)

    async def _drop(self, use: SegmentUse) -> bool:
        done = await self._segments.drop(use.segment_id)
        if done:
            self.segments -= 1
            self.dropped += 1
            logger.info("dropped segment %s, %s bytes", use.segment_id, use.size_bytes)
        else:
            logger.info(
                "segment %s cannot be dropped yet: a reader's transaction locks it; trying again later",
                use.segment_id,
            )
        return done

    async def _empty(self, use: SegmentUse) -> bool:
        async with self._pool.use() as connection:
            ledgers = await store.ledgers_in(connection, use.segment_id)
        logger.info(
            "copying %s ledgers, about %s bytes, out of segment %s",
            len(ledgers),
            use.live_bytes,
            use.segment_id,
        )
        for ledger in ledgers:
            if not await self._move(ledger, use.segment_id):
                return False
        return True

    async def _move(self, ledger: store.LedgerToMove, source: int) -> bool:
        target = await self._segments.long_lived()
        log = await self._open_log(ledger.topic_name)
        if not await self._copy(log, ledger, source, target):
            return False
        if not await self._segments.views_show_all():
            return False  # The views may lack the target segment, so they would not show the moved ledger
        moved = await self._epochs.write(
            log,
            lambda connection, epoch: store.move_ledger(
                connection,
                topic_id=ledger.topic_id,
                owner_epoch=epoch,
                ledger_id=ledger.ledger_id,
                source=source,
                target=target,
            ),
            what="moving a ledger to another segment",
        )
        if moved and ledger.ledger_id in log.segments:
            log.segments[ledger.ledger_id] = target
        return moved is not None

    async def _copy(self, log: TopicLog, ledger: store.LedgerToMove, source: int, target: int) -> bool:
        loop = asyncio.get_running_loop()
        # Entry ids begin at 0 and have no gaps, so the number of copied entries is the id of the next entry.
        first = await self._copied(ledger, target)
        while first < ledger.entries:
            if not log.is_open:
                return False
            if log.segments.get(ledger.ledger_id) != source:
                return True
            began_s = loop.time()
            async with self._pool.use() as connection:
                copied = await store.copy_piece(
                    connection,
                    source=source,
                    target=target,
                    ledger_id=ledger.ledger_id,
                    first=first,
                    last=min(ledger.entries, first + PIECE_ENTRIES) - 1,
                    more_bytes=PIECE_BYTES,
                )
            # A statement from a lost connection may already have copied these entries, so count again.
            through = first + copied if copied else await self._copied(ledger, target)
            if through <= first:
                self._damaged.add(source)
                logger.critical(
                    "segment %s lacks an entry of ledger %s of %s, %s or an earlier one, so it is kept: check the"
                    " database for lost rows",
                    source,
                    ledger.ledger_id,
                    ledger.topic_name,
                    first,
                )
                return False
            first = through
            self.copied_entries += copied
            await asyncio.sleep(_REST * (loop.time() - began_s))
        return True

    async def _copied(self, ledger: store.LedgerToMove, target: int) -> int:
        async with self._pool.use() as connection:
            return await store.copied_entries(connection, target=target, ledger_id=ledger.ledger_id)
