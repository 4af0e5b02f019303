"""Write the rows of delivery stories that the recorders collected, once a second."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.storage.away import is_away
from broker.storage.history.stories import ROWS_AT_ONCE, add_rows, new_ids
from broker.storage.pool import ConnectionPool, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.subscription.story_rows import StoryBuffer, StoryRow

__all__ = ["Stories"]

logger = logging.getLogger(__name__)


class Stories:
    """Stores each row at most once. Only the reporter calls `write`. A crash loses the rows that were not stored.

    While the database is unavailable, rows wait in the buffer, and recorders count the events that do not fit.
    """

    def __init__(self, pool: ConnectionPool, buffer: StoryBuffer) -> None:
        self._pool = pool
        self._buffer = buffer
        self._rows: Sequence[StoryRow] = ()  # taken from the buffer and not stored yet
        self._ids: Sequence[int] = ()  # ids of the first rows; a repeated statement uses the same ids

    async def write(self) -> None:
        """Store the waiting rows. Raises psycopg.Error while the database is unavailable; the next call tries again."""
        if not self._rows:
            self._rows = self._buffer.take()
        while self._rows:
            some = self._rows[:ROWS_AT_ONCE]
            try:
                async with self._pool.use() as connection:
                    if not self._ids:
                        self._ids = await new_ids(connection, len(some))
                    await add_rows(connection, self._ids, some)
            except Exception as error:
                if is_away(error):
                    raise
                # Do not retry: the statement is likely to fail again, and the report waits for it.
                logger.error(
                    "%s rows of delivery stories could not be stored and are lost: %s",
                    len(some),
                    first_line(error),
                )
            self._rows, self._ids = self._rows[len(some) :], ()
