"""Attach the ledger files that jobs have written, and delete files that nobody needs.

After a file is attached, the broker reads the ledger from the file instead of from PostgreSQL.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.core.counted import counted
from broker.core.errors import BrokerError
from broker.storage.log import offload as store
from pipeline.errors import LedgerFileDamaged, LedgerFileMissing, OffloadUnavailable

if TYPE_CHECKING:
    from broker.log.epochs import Epochs
    from broker.log.places.file import FileReads
    from broker.log.topic_log import TopicLog
    from broker.storage.log.offload import WrittenFile
    from broker.storage.pool import ConnectionPool
    from broker.topics.topics import Topics
    from pipeline.ledger_files.rows import Manifest

__all__ = ["Offloads"]

logger = logging.getLogger(__name__)

_FILES = 20
# After this time, an unattached file is deleted, unless the job that writes the file is still running.
STALE_AFTER_S = 3600


class Offloads:
    """Attaches and deletes the files of ledgers."""

    def __init__(self, topics: Topics, files: FileReads, epochs: Epochs, pool: ConnectionPool) -> None:
        self._topics = topics
        self._files = files
        self._epochs = epochs
        self._pool = pool
        # Totals since the broker started
        self.ledgers = 0
        self.size_bytes = 0

    async def turn(self) -> None:
        """Attach the files that jobs have written, then delete files that nobody needs. Safe to repeat.

        Raises psycopg.Error if the database fails.
        """
        async with self._pool.use() as connection:
            waiting = await store.waiting(connection, limit=_FILES)
        for written in waiting:
            try:
                await self._take_over(written)
            except (BrokerError, OffloadUnavailable) as error:
                logger.warning(
                    "the file %s of %s cannot be taken over yet; the next turn tries again: %s",
                    written.name,
                    written.topic_name,
                    error,
                )
        await self._delete()

    async def _take_over(self, written: WrittenFile) -> None:
        try:
            manifest = await self._files.verify(written.name)
        except (LedgerFileDamaged, LedgerFileMissing) as error:
            await self._refuse(written, str(error))
            return
        log = (await self._topics.open_named(written.topic_name)).log
        problem = _problem(written, manifest, log)
        if problem:
            await self._refuse(written, problem)
            return
        attached = await self._epochs.write(
            log,
            lambda connection, epoch: store.attach(
                connection, topic_id=log.topic_id, owner_epoch=epoch, name=written.name
            ),
            what="attaching the file of a ledger",
        )
        if attached:
            log.offloaded(written.ledger_id, written.name)
            self.ledgers += 1
            self.size_bytes += written.size_bytes
            logger.info(
                "ledger %s of %s, %s bytes, is read from %s from now on",
                written.ledger_id,
                written.topic_name,
                written.size_bytes,
                written.name,
            )

    async def _refuse(self, written: WrittenFile, why: str) -> None:
        logger.error(
            "the file %s of %s is not used and will be deleted: %s",
            written.name,
            written.topic_name,
            why,
        )
        async with self._pool.use() as connection:
            await store.refuse(connection, written.name)

    async def _delete(self) -> None:
        async with self._pool.use() as connection:
            await store.abandon(connection, stale_after_s=STALE_AFTER_S)
            doomed = await store.doomed(connection, limit=_FILES)
        for name in doomed:
            try:
                await self._files.delete(name)
            except OffloadUnavailable as error:
                logger.warning(
                    "the file %s cannot be deleted yet; the next turn tries again: %s", name, error
                )
                return
            async with self._pool.use() as connection:
                await store.forget(connection, name)


def _problem(written: WrittenFile, manifest: Manifest, log: TopicLog) -> str:
    if (manifest.ledger_id, manifest.checksum) != (written.ledger_id, written.checksum):
        return f"its ledger id ({manifest.ledger_id}) or its checksum is not the one that the job stored"
    ledger = log.ledgers.get(written.ledger_id)
    if ledger is None:
        return "the ledger was trimmed"
    stored = (ledger.entries, ledger.messages, ledger.size_bytes)
    if not ledger.sealed or stored != (manifest.entries, manifest.messages, manifest.size_bytes):
        return (
            f"it has {counted(manifest.entries, 'entry', 'entries')}, {manifest.messages} messages and"
            f" {manifest.size_bytes} bytes, and the ledger has {ledger.entries}, {ledger.messages} and"
            f" {ledger.size_bytes}"
        )
    return ""
