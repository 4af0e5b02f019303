"""Read a ledger from a segment (a pair of tables in PostgreSQL). Repeat reads while the database is unavailable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import psycopg

from broker.log.places.place import PlaceGone
from broker.storage.log import entries as store
from broker.storage.pool import ConnectionPool, repeat_until_done

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.storage.connection import Connection

__all__ = ["SegmentPlace"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlace:
    """Implements LedgerPlace for a ledger in a segment. Reads raise psycopg.Error if the server refuses them."""

    pool: ConnectionPool
    segment_id: int
    ledger_id: int

    def __str__(self) -> str:
        return f"vela_entry_{self.segment_id}"

    async def read(self, first: int, last: int, *, more_bytes: int) -> list[StoredEntry]:
        return await self._ask(
            lambda connection: store.read(
                connection,
                segment_id=self.segment_id,
                ledger_id=self.ledger_id,
                first=first,
                last=last,
                more_bytes=more_bytes,
            ),
            what="reading entries",
        )

    async def read_some(self, entry_ids: Sequence[int]) -> list[StoredEntry]:
        return await self._ask(
            lambda connection: store.read_some(
                connection, segment_id=self.segment_id, ledger_id=self.ledger_id, entry_ids=entry_ids
            ),
            what="reading chosen entries",
        )

    async def read_counts(self, first: int, last: int) -> list[tuple[int, int, int]]:
        return await self._ask(
            lambda connection: store.read_counts(
                connection, segment_id=self.segment_id, ledger_id=self.ledger_id, first=first, last=last
            ),
            what="reading message counts",
        )

    async def append_ms(self, entry_id: int) -> int | None:
        return await self._ask(
            lambda connection: store.append_ms_at(
                connection, segment_id=self.segment_id, ledger_id=self.ledger_id, entry_id=entry_id
            ),
            what="reading an append time",
        )

    async def messages_through(self, entry_id: int) -> int | None:
        return await self._ask(
            lambda connection: store.messages_through(
                connection, segment_id=self.segment_id, ledger_id=self.ledger_id, entry_id=entry_id
            ),
            what="reading a message count",
        )

    async def _ask(self, call: Callable[[Connection], Awaitable[T]], *, what: str) -> T:
        try:
            return await repeat_until_done(self.pool, call, what=what)
        except psycopg.errors.UndefinedTable as error:
            raise PlaceGone(f"table {self} does not exist") from error
