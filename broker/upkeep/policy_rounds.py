"""Enforce policies in rounds: check quotas, start compactions, and remove unused subscriptions and topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import psycopg

from broker.core.errors import BrokerError
from broker.storage.pool import first_line

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.tasks import BackgroundTasks
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics
    from broker.upkeep.compaction import CompactionDuty
    from broker.upkeep.disuse import Disuse

__all__ = ["PolicyRounds"]

logger = logging.getLogger(__name__)

ROUND_MS = 5_000
_IDLE_EVERY_MS = 60_000
# A compaction that fails must not be tried in every round.
_COMPACTION_EVERY_MS = 60_000


class PolicyRounds:
    """Runs one round at a time."""

    def __init__(
        self,
        topics: Topics,
        disuse: Disuse,
        compaction: CompactionDuty,
        clock: Clock,
        tasks: BackgroundTasks,
        *,
        is_ready: Callable[[], bool],
        wheel_enabled: bool,
    ) -> None:
        self._topics = topics
        self._disuse = disuse
        self._compaction = compaction
        self._clock = clock
        self._tasks = tasks
        self._is_ready = is_ready
        self._wheel_enabled = wheel_enabled
        self._running: asyncio.Task[None] | None = None
        self._last_ms = 0
        self._last_idle_ms = 0
        self._last_compaction_ms = 0
        self._idle_after = 0  # The next check covers idle topics with ids above this number

    async def turn(self) -> None:
        """Start a round if one is due and VELA_WHEEL is on."""
        if self._wheel_enabled and _is_due(self._last_ms, ROUND_MS, self._clock.now_ms()):
            self.ask()  # Waiting for the round would delay other periodic work

    def ask(self) -> None:
        """Start a round, unless one is under way, and return at once."""
        self._tasks.keep(asyncio.create_task(self.run(), name="policy round"))

    async def run(self) -> None:
        """Run a round. If a round is under way, wait for its end instead."""
        if self._running is None:
            self._running = asyncio.create_task(self._round(), name="policy round")
            self._running.add_done_callback(self._ended)
        await asyncio.shield(self._running)

    def stop(self) -> None:
        """Cancel the current round."""
        if self._running is not None:
            self._running.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a round through the policies failed; the next one tries again", exc_info=error)

    async def _round(self) -> None:
        if not self._is_ready():
            return
        now_ms = self._last_ms = self._clock.now_ms()
        is_compacting = _is_due(self._last_compaction_ms, _COMPACTION_EVERY_MS, now_ms)
        if is_compacting:
            self._last_compaction_ms = now_ms
        await self._guarded(self._compaction.take_surveys(), "compactions with Spark")
        for topic in self._topics.all():
            policies = topic.policies
            if topic.quota.is_set or topic.quota.breach is not None:
                await self._duty(topic.quota.check(), topic)
            if policies.subscription_expiry_ms:
                await self._duty(self._disuse.expire_subscriptions(topic), topic)
            if is_compacting:
                self._compaction.start_if_due(topic)
            if policies.delete_inactive_topics and topic.is_open:
                await self._duty(self._disuse.delete_if_inactive(topic), topic)
        if _is_due(self._last_idle_ms, _IDLE_EVERY_MS, now_ms):
            self._last_idle_ms = now_ms
            self._idle_after = await self._disuse.visit_idle_topics(self._idle_after)

    async def _duty(self, duty: Coroutine[Any, Any, object], topic: Topic) -> None:
        await self._guarded(duty, topic.name.full)

    async def _guarded(self, duty: Coroutine[Any, Any, object], what: str) -> None:
        try:
            await duty
        except (BrokerError, psycopg.Error) as error:
            logger.warning(
                "a round through the policies left out %s; the next round tries again: %s",
                what,
                first_line(error),
            )
        except Exception:
            logger.exception("a round through the policies failed at %s; the next round tries again", what)


def _is_due(last_ms: int, every_ms: int, now_ms: int) -> bool:
    passed_ms = now_ms - last_ms  # Negative if the clock was set back
    return not 0 <= passed_ms < every_ms
