"""Read offloaded ledgers from files. The reads run in threads, because slow storage would block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from broker.core.entry import StoredEntry
from broker.core.errors import PersistenceFailed
from broker.log.places.place import PlaceGone
from pipeline.errors import LedgerFileMissing, OffloadUnavailable
from pipeline.ledger_files.reader import LedgerFiles

if TYPE_CHECKING:
    from pipeline.ledger_files.rows import Manifest

__all__ = ["FilePlace", "FileReads", "OffloadedUnreadable"]

T = TypeVar("T")

_THREADS = 2


class OffloadedUnreadable(PersistenceFailed):
    """The file of an offloaded ledger is damaged, or cannot be read now."""


class FileReads:
    """Reads, verifies and deletes the files of offloaded ledgers."""

    def __init__(self, url: str, *, cache_bytes: int) -> None:
        """`url` is VELA_OFFLOAD_URL, which may be empty while no ledger is offloaded."""
        self._files = LedgerFiles(url, cache_bytes=cache_bytes)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ledger files")

    async def run(self, call: Callable[[LedgerFiles], T]) -> T:
        """Run `call` in a thread. Safe to cancel.

        Raises PlaceGone if the file does not exist, and OffloadedUnreadable if the file cannot be read.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, call, self._files)
        except LedgerFileMissing as error:
            raise PlaceGone(str(error)) from error
        except OffloadUnavailable as error:
            raise OffloadedUnreadable(str(error)) from error

    async def verify(self, name: str) -> Manifest:
        """Check a whole file and return its manifest.

        Raises LedgerFileDamaged, LedgerFileMissing or OffloadUnavailable.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._files.verify, name)

    async def delete(self, name: str) -> None:
        """Delete a file. Safe to repeat. Raises OffloadUnavailable if the storage cannot be used."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._files.delete, name)

    def stop(self) -> None:
        """Accept no more calls, and cancel waiting calls. Let running calls finish."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """Implements LedgerPlace for a ledger in a file. Reads raise OffloadedUnreadable if the file cannot be read."""

    files: FileReads
    name: str
    ledger_id: int

    def __str__(self) -> str:
        return f"the file {self.name}"

    async def read(self, first: int, last: int, *, more_bytes: int) -> list[StoredEntry]:
        return await self.files.run(
            lambda files: [
                StoredEntry(self.ledger_id, *row)
                for row in files.read(self.name, first, last, more_bytes=more_bytes)
            ]
        )

    async def read_some(self, entry_ids: Sequence[int]) -> list[StoredEntry]:
        return await self.files.run(
            lambda files: [StoredEntry(self.ledger_id, *row) for row in files.read_some(self.name, entry_ids)]
        )

    async def read_counts(self, first: int, last: int) -> list[tuple[int, int, int]]:
        return await self.files.run(lambda files: files.read_counts(self.name, first, last))

    async def append_ms(self, entry_id: int) -> int | None:
        row = await self.files.run(lambda files: files.entry(self.name, entry_id))
        return None if row is None else row.append_ms

    async def messages_through(self, entry_id: int) -> int | None:
        row = await self.files.run(lambda files: files.entry(self.name, entry_id))
        return None if row is None else row.cumulative_messages
