"""Compact topics that have reached their compaction threshold, and topics that Spark has surveyed.

A survey finds the latest message of each key.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import psycopg

from broker.core.errors import BrokerError, ServiceNotReady, TopicFenced
from broker.storage.log import compaction_surveys as store
from broker.storage.pool import first_line, repeat_until_done
from broker.topics.compaction.compactor import CompactionBusy

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.storage.log.compaction_surveys import Survey
    from broker.storage.pool import ConnectionPool
    from broker.tasks import BackgroundTasks
    from broker.topics.compaction.compactor import Compactor
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["CompactionDuty"]

logger = logging.getLogger(__name__)

_SURVEYS: Final = 20
_SWEPT_KEYS: Final = 20_000


class CompactionDuty:
    """Starts compactions as background tasks."""

    def __init__(
        self, compactor: Compactor, topics: Topics, pool: ConnectionPool, clock: Clock, tasks: BackgroundTasks
    ) -> None:
        self._compactor = compactor
        self._topics = topics
        self._pool = pool
        self._clock = clock
        self._tasks = tasks
        self._under_way: set[int] = set()  # Ids of surveys whose compaction is running

    def start_if_due(self, topic: Topic) -> None:
        """Start to compact a topic if it has reached its compaction threshold."""
        threshold_bytes = topic.policies.compaction_threshold_bytes
        stored = topic.compacted.stored
        if (
            threshold_bytes
            and topic.is_open
            and not topic.compacted.is_running
            and (stored is None or self._clock.now_ms() >= stored.retry_ms)
            and self._compactor.backlog_bytes(topic) >= threshold_bytes
        ):
            name = f"compaction of {topic.name}"
            self._tasks.keep(asyncio.create_task(self._compactor.compact(topic), name=name))

    async def take_surveys(self) -> None:
        """Start to compact topics that Spark has surveyed, and clean up old surveys. Safe to repeat."""
        async with self._pool.use() as connection:
            await store.abandon(connection)
            found = await store.ready(connection, limit=_SURVEYS)
            await store.sweep(connection, limit=_SWEPT_KEYS)
        for survey in found:
            if survey.survey_id not in self._under_way:
                self._under_way.add(survey.survey_id)
                name = f"compaction of {survey.topic_name} with Spark"
                self._tasks.keep(asyncio.create_task(self._compact(survey), name=name))

    async def _compact(self, survey: Survey) -> None:
        survey_id = survey.survey_id
        try:
            if survey.topic_name is None:
                await self._finish(survey_id, state="refused", error="the topic was deleted")
                return
            topic = await self._topics.open_named(survey.topic_name)
            result = await self._compactor.compact(topic, survey=survey)
            await self._finish(
                survey_id,
                state="done",
                kept_messages=result.kept.messages,
                removed_messages=result.removed_messages,
            )
        except (CompactionBusy, ServiceNotReady, TopicFenced):
            return  # The next call of `take_surveys` tries again
        except BrokerError as error:
            await self._finish(survey_id, state="refused", error=str(error))
        except psycopg.Error as error:
            logger.warning(
                "survey %s of %s failed; the next round tries again: %s",
                survey_id,
                survey.topic_name,
                first_line(error),
            )
        finally:
            self._under_way.discard(survey_id)

    async def _finish(
        self,
        survey_id: int,
        *,
        state: str,
        error: str = "",
        kept_messages: int = 0,
        removed_messages: int = 0,
    ) -> None:
        await repeat_until_done(
            self._pool,
            lambda c: store.finish(
                c,
                survey_id,
                state=state,
                error=error,
                kept_messages=kept_messages,
                removed_messages=removed_messages,
            ),
            what="ending a survey",
        )
