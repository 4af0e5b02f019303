"""Compacts topics whose policy `compaction_threshold_bytes` says that enough was published since the last time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.tasks import BackgroundTasks
    from broker.topics.compaction.compactor import Compactor
    from broker.topics.topic import Topic

__all__ = ["CompactionDuty"]


class CompactionDuty:
    """Starts compactions beside the round that asks, because they take long."""

    def __init__(self, compactor: Compactor, clock: Clock, tasks: BackgroundTasks) -> None:
        self._compactor = compactor
        self._clock = clock
        self._tasks = tasks

    def start_if_due(self, topic: Topic) -> None:
        """Start to compact a topic if its policy asks for it now. After runs that failed it waits, longer each time."""
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
