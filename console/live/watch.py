"""Watch the broker, Celery and the database while a live stream is open."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import psycopg
from django.utils.translation import override
from psycopg.rows import class_row

from console.notices import database_is_silent, notices_of
from console.queries.chrome import Chrome
from console.queries.database import READ_ALIAS, parameters_of, statement
from console.queries.rights import Scope
from console.words.troubles import SILENT_AFTER_MS

__all__ = ["Watch"]

INTERVAL_S: Final = 1.0
ANSWER_S: Final = 2.0
SETTLE_S: Final = 2.5  # Time for processes to write a heartbeat after the database answers again
_JUST_AFTER_S: Final = 0.05

# With these settings, a query to a vanished host fails after 15 s.
_KEEPALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

logger = logging.getLogger(__name__)


class Watch:
    """Finds the current problems."""

    def __init__(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self._on_change = on_change
        self._connection: psycopg.AsyncConnection[Chrome] | None = None
        self._asking: asyncio.Task[Chrome] | None = None
        self._answered_ms: int | None = None  # Time of the last answer, by the database's clock
        self._settled_s = 0.0
        self._found: object = None
        self._has_found = False
        self._state: Chrome | None = None
        self._events: dict[tuple[str, int], str] = {}
        self.is_answering = True

    def event(self, language: str, scope: Scope) -> str:
        """Return the latest finding as a server-sent event, or "" before the first finding."""
        if not self._has_found:
            return ""
        waiting_acts = 0 if self._state is None else self._state.waiting_in(scope)
        key = (language, waiting_acts)
        if key not in self._events:
            self._events[key] = self._written(*key)
        return self._events[key]

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                pause_s = INTERVAL_S
                try:
                    state = await self._look()
                    pause_s = _pause_s(state)
                    await self._find(state)
                except Exception:  # An error must not end the watch
                    logger.exception("looking for signs of life failed; the next look is in a second")
                if self._asking is None:
                    await asyncio.sleep(pause_s)
        finally:
            if self._asking is not None:
                self._asking.cancel()
            if self._connection is not None:
                await self._connection.close()

    async def _look(self) -> Chrome | None:
        """Return the database's answer, or None if the query fails or takes longer than ANSWER_S seconds.

        If the answer comes later, a later call returns it.
        """
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="asking for signs of life")
            self._asking.add_done_callback(lambda asking: asking.cancelled() or asking.exception())
        await asyncio.wait({self._asking}, timeout=ANSWER_S)
        if not self._asking.done():
            return None
        asking, self._asking = self._asking, None
        try:
            return asking.result()
        except (psycopg.Error, OSError) as error:
            if self.is_answering:
                logger.warning("the database does not answer; the pages say so: %s", error)
            return None

    async def _ask(self) -> Chrome:
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = await psycopg.AsyncConnection.connect(
                **{**_KEEPALIVE, **parameters_of(READ_ALIAS)}, autocommit=True, row_factory=class_row(Chrome)
            )
        try:
            state = await (await connection.execute(statement("chrome", "chrome"))).fetchone()
        except psycopg.Error:
            await connection.close()
            raise
        if state is None:
            raise psycopg.OperationalError("the query for signs of life found nothing")
        return state

    async def _find(self, state: Chrome | None) -> None:
        now_s = asyncio.get_running_loop().time()
        self.is_answering = state is not None
        if state is None:
            self._settled_s = now_s + SETTLE_S
            found: object = self._answered_ms
        else:
            self._answered_ms = state.now_ms
            if state.troubles and now_s < self._settled_s:
                return
            found = (state.troubles, state.host, state.pid, state.waiting_acts)
        if found != self._found or not self._has_found:
            self._found, self._state, self._has_found = found, state, True
            self._events.clear()
            await self._on_change()

    def _written(self, language: str, waiting_acts: int) -> str:
        with override(language):
            notices = (
                database_is_silent(self._answered_ms)
                if self._state is None
                else notices_of(self._state, waiting_acts)
            )
        return f"event: health\ndata: {json.dumps(notices.to_json())}\n\n"


def _pause_s(state: Chrome | None) -> float:
    signs = [] if state is None else [state.seen_ms, state.beat_ms, state.worker_ms]
    now_ms = 0 if state is None else state.now_ms
    left_s = [(sign + SILENT_AFTER_MS - now_ms) / 1000 for sign in signs if sign is not None]
    return min([INTERVAL_S, *(each + _JUST_AFTER_S for each in left_s if each > 0)])
