"""Store delivery stories, which tell what happened to entries on a subscription."""

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
    """Moves rows from the buffer to the database, each row at most once."""

    def __init__(self, pool: ConnectionPool, buffer: StoryBuffer) -> None:
        self._pool = pool
        self._buffer = buffer
        self._rows: Sequence[StoryRow] = ()
        # A repeated insert must use the same ids.
        self._ids: Sequence[int] = ()

    async def write(self) -> None:
        """Store the waiting rows. Raises psycopg.Error while the database is unavailable."""
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
                # Do not retry, because the statement is likely to fail again.
                logger.error(
                    "%s rows of delivery stories could not be stored and are lost: %s",
                    len(some),
                    first_line(error),
                )
            self._rows, self._ids = self._rows[len(some) :], ()
