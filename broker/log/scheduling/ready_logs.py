"""The logs that wait for a lane of the writer.

Each log is checked at most twice, however many logs wait. A log begins in `_new`. A check may move it to `_sound` or
`_full`, and a later check from `_sound` to `_full`. A log may be removed from any of the three.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.log.topic_log import TopicLog

__all__ = ["ReadyLogs"]


class ReadyLogs:
    """The waiting logs, in order. `TopicLog.is_queued` is true while a log waits here."""

    def __init__(self) -> None:
        self._new: deque[TopicLog] = deque()
        self._sound: deque[TopicLog] = deque()  # when last checked, had a ledger to append to, or no sends
        self._full: deque[TopicLog] = deque()  # when last checked, needed a new ledger first
        self._is_turn_of_full = False

    def __len__(self) -> int:
        return len(self._new) + len(self._sound) + len(self._full)

    def add(self, log: TopicLog) -> None:
        """Add a log, which must not wait here already."""
        log.is_queued = True
        self._new.append(log)

    def next(self) -> TopicLog:
        """Remove and return a log. Logs that need a ledger take turns with others. Raises IndexError if none waits."""
        self._is_turn_of_full = not self._is_turn_of_full
        others = self._sound or self._new
        log = (self._full if self._full and (self._is_turn_of_full or not others) else others).popleft()
        log.is_queued = False
        return log

    def next_for(self, segment_id: int, now_ms: int) -> TopicLog | None:
        """Remove and return the next log that can append to this segment at once; None if there is none."""
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
        """Remove and return at most `most` logs that need a new ledger to append to this segment."""
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
