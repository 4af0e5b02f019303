"""The reads of one subscription, one at a time. A failed read is repeated; a gap in the log stops delivery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from broker.log.reader import GapInLog
from broker.storage.supervised import pause_after_faults_s

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["Reads"]

logger = logging.getLogger(__name__)


class Reads:
    """Calls `ended` after every read with the entries found, none after a fault, and `gap_found` before that."""

    def __init__(
        self,
        name: str,
        *,
        ended: Callable[[Sequence[StoredEntry]], None],
        gap_found: Callable[[str], None],
    ) -> None:
        self._name = name  # of topic and subscription
        self._ended = ended
        self._gap_found = gap_found
        self._faults = 0  # in a row
        self.task: asyncio.Task[None] | None = None  # the read under way

    def start(self, read: Callable[[], Awaitable[Sequence[StoredEntry]]]) -> None:
        """Start a read in a separate task. Call this only while no read is under way."""
        self.task = asyncio.create_task(self._run(read), name=f"read for {self._name}")

    def stop(self) -> None:
        """Cancel the read under way: it would repeat for as long as the database is away."""
        if self.task is not None:
            self.task.cancel()

    async def _run(self, read: Callable[[], Awaitable[Sequence[StoredEntry]]]) -> None:
        entries: Sequence[StoredEntry] = ()
        try:
            entries = await read()
        except GapInLog as error:
            self._gap_found(str(error))
            logger.critical("%s: %s", self._name, error)
        except Exception:
            self._faults += 1
            pause_s = pause_after_faults_s(self._faults)
            logger.exception("%s: a read failed; next try in %.1f s", self._name, pause_s)
            await asyncio.sleep(pause_s)
        else:
            self._faults = 0
        finally:
            self.task = None
        self._ended(entries)
