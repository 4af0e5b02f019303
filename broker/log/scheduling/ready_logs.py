"""The logs that wait for a lane. A lane is a task of the writer.

A segment is a pair of PostgreSQL tables with the ledgers of many topics.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog

__all__ = ["ReadyLogs"]


class ReadyLogs:
    """The waiting logs."""

    def __init__(self) -> None:
        self._new: deque[TopicLog] = deque()
        self._sound: deque[TopicLog] = deque()  # Logs that needed no new ledger at the last check
        self._full: deque[TopicLog] = deque()  # Logs that needed a new ledger at the last check
        self._is_turn_of_full = False

    def __len__(self) -> int:
        return len(self._new) + len(self._sound) + len(self._full)

    def add(self, log: TopicLog) -> None:
        """Add a log that is not waiting here yet."""
        log.is_queued = True
        self._new.append(log)

    def next(self) -> TopicLog:
        """Remove and return a log. Logs that need a new ledger take turns with other logs.

        Raises IndexError if no log waits.
        """
        self._is_turn_of_full = not self._is_turn_of_full
        others = self._sound or self._new
        log = (self._full if self._full and (self._is_turn_of_full or not others) else others).popleft()
        log.is_queued = False
        return log

    def next_for(self, segment_id: int, now_ms: int) -> TopicLog | None:
        """Remove and return a log that can append to this segment without a new ledger. Return None if no log can."""
        while others := self._sound or self._new:
            log = others.popleft()
            if _has_sends(log) and log.needs_ledger(now_ms, segment_id):
                self._full.append(log)
                continue
            log.is_queued = False
            if _has_sends(log):
                return log
        return None

    def take_full(self, segment_id: int, now_ms: int, *, most: int) -> list[TopicLog]:
        """Remove and return logs that need a new ledger to append to this segment. `most` limits their number."""
        while self._new:
            log = self._new.popleft()
            is_full = _has_sends(log) and log.needs_ledger(now_ms, segment_id)
            (self._full if is_full else self._sound).append(log)
        taken: list[TopicLog] = []
        while self._full and len(taken) < most:
            log = self._full.popleft()
            log.is_queued = False
            if _has_sends(log):
                taken.append(log)
        return taken


def _has_sends(log: TopicLog) -> bool:
    return log.is_open and log.has_sends()
