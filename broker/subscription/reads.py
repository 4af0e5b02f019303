"""Run the reads of one subscription, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker.core.errors import PersistenceFailed
from broker.log.reader import GapInLog
from broker.storage.supervised import pause_after_faults_s

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry

__all__ = ["Reads"]

logger = logging.getLogger(__name__)


class Reads:
    """The reads of one subscription. A successful read passes its entries to the callback `ended`.

    A failed read pauses, and then passes an empty sequence. If an entry is missing from the log, the read calls
    `gap_found`, and then passes an empty sequence. A cancelled read calls neither callback.
    """

    def __init__(
        self,
        name: str,
        *,
        log_fields: Callable[[], Mapping[str, str]],
        ended: Callable[[Sequence[StoredEntry]], None],
        gap_found: Callable[[str], None],
        fault_changed: Callable[[], None],
    ) -> None:
        self._name = name
        self._log_fields = log_fields
        self._ended = ended
        self._gap_found = gap_found
        self._fault_changed = fault_changed
        self._faults = 0
        self.fault = ""  # Why the latest read failed; empty if the read succeeded
        self.task: asyncio.Task[None] | None = None

    def start(self, read: Callable[[], Awaitable[Sequence[StoredEntry]]]) -> None:
        """Start a read. Call this only while no read is under way."""
        self.task = asyncio.create_task(self._run(read), name=f"read for {self._name}")

    def stop(self) -> None:
        """Cancel the read under way, if any."""
        if self.task is not None:
            self.task.cancel()

    async def _run(self, read: Callable[[], Awaitable[Sequence[StoredEntry]]]) -> None:
        entries: Sequence[StoredEntry] = ()
        try:
            entries = await read()
        except GapInLog as error:
            self._succeeded()  # A gap in the log does not count as a failed read
            self._gap_found(str(error))
            logger.critical("%s: %s", self._name, error, extra=self._log_fields())
        except Exception as error:
            self._faults += 1
            pause_s = pause_after_faults_s(self._faults)
            if isinstance(error, PersistenceFailed):
                logger.error(
                    "%s: a read failed; next try in %.1f s: %s",
                    self._name,
                    pause_s,
                    error,
                    extra=self._log_fields(),
                )
                self._note(str(error))
            else:
                logger.exception(
                    "%s: a read failed; next try in %.1f s", self._name, pause_s, extra=self._log_fields()
                )
                self._note(f"{type(error).__name__}; the broker's log says more")
            await asyncio.sleep(pause_s)
        else:
            self._succeeded()
        finally:
            self.task = None
        self._ended(entries)

    def _succeeded(self) -> None:
        self._faults = 0
        self._note("")

    def _note(self, fault: str) -> None:
        if fault != self.fault:
            self.fault = fault
            self._fault_changed()
