"""Guard writes with owner epochs, so that a statement of a former owner stores nothing.

Each write names the epoch under which this process owns the topic. A broker that takes over the topic advances the
epoch. To fence a log means to close it because another broker may own the topic, or because memory may differ from the
database.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import psycopg

from broker.storage.away import is_away
from broker.storage.pool import ConnectionPool, first_line, repeat_until_done
from broker.storage.topics import topics as store

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog
    from broker.storage.connection import Connection

__all__ = ["TAKEN", "Epochs"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

TAKEN: Final = "another broker took the topic"
_UNKNOWN: Final = "a write failed, but an earlier attempt, whose connection was lost, may have stored it"
_TAKEN_IN_PART: Final = "another broker took a partition that an act was moving with this one"
_RETRY_S = 0.2


class Epochs:
    """The epochs of the logs that this process owns. `token` identifies this process."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._advancing = asyncio.Lock()
        self.on_advanced: Callable[[], None] = lambda: None
        self.token = secrets.randbits(62)

    async def advance(self, expected: Mapping[TopicLog, int]) -> set[TopicLog]:
        """Advance the epoch of each log that still has its expected epoch.

        Returns the logs that this process still owns. Waits until older statements on the logs have ended.
        """
        async with self._advancing:
            kept = {log for log, epoch in expected.items() if log.owner_epoch != epoch and log.is_open}
            asked = {log.topic_id: log for log in expected if log not in kept and log.is_open}
            if asked:
                epochs = {topic_id: log.owner_epoch for topic_id, log in asked.items()}
                advanced = await repeat_until_done(
                    self._pool,
                    lambda c: store.advance_epochs(c, epochs, token=self.token),
                    what="advancing epochs",
                )
                for topic_id, epoch in advanced.items():
                    asked[topic_id].owner_epoch = epoch
                    kept.add(asked[topic_id])
                if advanced:
                    self.on_advanced()
            return kept

    async def advance_or_fence(self, expected: Mapping[TopicLog, int]) -> set[TopicLog]:
        """Advance the epochs of these logs, so that earlier statements have no further effect.

        Fences each log that another broker took. If the epochs cannot be advanced, fences all logs. Returns the logs
        that this process still owns.
        """
        reason = TAKEN
        try:
            kept = await self.advance(expected)
        except Exception:
            logger.exception(
                "advancing the epochs of %s logs failed; the broker closes them and loads them again when asked",
                len(expected),
            )
            kept, reason = (
                set(),
                "an internal error left the outcome of a write unknown; see the broker's log",
            )
        for log in expected.keys() - kept:
            log.fence(reason)
        return kept

    async def has_advanced(self, log: TopicLog, epoch: int) -> bool:
        """Return whether the log is open and its epoch is no longer `epoch`.

        If a call of `advance` is running, waits until that call has ended.
        """
        async with self._advancing:
            return log.is_open and log.owner_epoch != epoch

    async def write(
        self, log: TopicLog, call: Callable[[Connection, int], Awaitable[T | None]], *, what: str
    ) -> T | None:
        """Run one write under the log's epoch. Return the result of `call`, or None if the log is closed.

        `call` must be safe to repeat, and must return None if the epoch is out of date. Raises the same errors as
        `write_all`. Not safe to cancel.
        """

        async def write_one(connection: Connection, epochs: Mapping[TopicLog, int]) -> Mapping[TopicLog, T]:
            result = await call(connection, epochs[log])
            return {} if result is None else {log: result}

        return (await self.write_all([log], write_one, what=what)).get(log)

    async def write_all(
        self,
        logs: Sequence[TopicLog],
        call: Callable[[Connection, Mapping[TopicLog, int]], Awaitable[Mapping[TopicLog, T]]],
        *,
        what: str,
    ) -> dict[TopicLog, T]:
        """Run one write under the epochs of many logs. Return the results by log.

        A log without a result was closed already, or this call has fenced it.

        `call` must be safe to repeat, and must return no result for a log whose epoch is out of date. Raises
        psycopg.Error if the server refuses the write. Raises every other error of `call` too. Not safe to cancel.

        If an earlier attempt lost its connection, this call fences the logs before it raises an error, because that
        attempt may have stored the write.
        """
        done: dict[TopicLog, T] = {}
        waiting = list(logs)
        unanswered: set[TopicLog] = set()
        while waiting:
            epochs: dict[TopicLog, int] = {}
            try:
                async with self._pool.use() as connection:
                    epochs = {log: log.owner_epoch for log in waiting}
                    results = await call(connection, epochs)
            except psycopg.Error as error:
                if not is_away(error):
                    _fence(unanswered.intersection(waiting), _UNKNOWN)
                    raise
                logger.warning("%s: the database is unavailable (%s); trying again", what, first_line(error))
                await asyncio.sleep(_RETRY_S)
                if epochs:  # The statement may have been sent
                    kept = await self.advance_or_fence(epochs)
                    waiting = [log for log in waiting if log in kept]
                    unanswered.update(waiting)
                continue
            except Exception:
                _fence(unanswered.intersection(waiting), _UNKNOWN)
                if epochs:  # The write may still take effect
                    await self.advance_or_fence(epochs)
                raise
            done.update(results)
            missing = [log for log in waiting if log not in results]
            waiting = [log for log in missing if await self.has_advanced(log, epochs[log])]
            for log in missing:
                if log not in waiting:
                    log.fence(TAKEN)
        return done

    async def write_together(
        self, logs: Sequence[TopicLog], call: Callable[[Connection], Awaitable[T]], *, what: str
    ) -> T | None:
        """Run one transaction under the epochs of all these logs. Repeat it while the database is unavailable.

        Returns None if this process no longer owns one of the topics. `call` must be safe to repeat. Raises
        psycopg.Error if the server refuses the transaction. Raises every other error of `call` too. Not safe to cancel.

        If the result is None or an error, nothing is stored, unless an attempt lost its connection after the commit. So
        if an attempt lost its connection, this call fences all logs before it returns None or raises.
        """
        is_unanswered = False
        while True:
            epochs: dict[TopicLog, int] = {}
            owned: set[int] = set()
            try:
                async with self._pool.use() as connection:
                    epochs = {log: log.owner_epoch for log in logs}
                    async with connection.transaction():
                        owned = await store.owned(
                            connection, {log.topic_id: epoch for log, epoch in epochs.items()}
                        )
                        if len(owned) == len(epochs):
                            result = await call(connection)
                    if len(owned) == len(epochs):
                        return result
            except Exception as error:
                if not is_away(error):
                    if is_unanswered:
                        _fence(logs, _UNKNOWN)
                    raise
                logger.warning("%s: the database is unavailable (%s); trying again", what, first_line(error))
                await asyncio.sleep(_RETRY_S)
                if epochs:
                    is_unanswered = True
                    if len(await self.advance_or_fence(epochs)) < len(epochs):
                        _fence(logs, _TAKEN_IN_PART)
                        return None
                continue
            lost = [
                log
                for log in logs
                if log.topic_id not in owned and not await self.has_advanced(log, epochs[log])
            ]
            if lost:
                _fence(lost, TAKEN)
                if is_unanswered:
                    _fence(logs, _TAKEN_IN_PART)
                return None


def _fence(logs: Iterable[TopicLog], reason: str) -> None:
    for log in logs:
        log.fence(reason)
