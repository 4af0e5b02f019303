"""The topics that wait for a lane of the writer.

Each is looked at a bounded number of times however many others wait: it moves from `_new` to `_sound` or `_full`, from
`_sound` perhaps to `_full`, and out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.topics.topic import Topic

__all__ = ["ReadyTopics"]


class ReadyTopics:
    """Sets `Topic.is_queued` while a topic waits here."""

    def __init__(self) -> None:
        self._new: deque[Topic] = deque()
        self._sound: deque[Topic] = deque()  # seen to have a ledger to append to
        self._full: deque[Topic] = deque()  # seen to need a new ledger first
        self._is_turn_of_full = False

    def __len__(self) -> int:
        return len(self._new) + len(self._sound) + len(self._full)

    def add(self, topic: Topic) -> None:
        """Let a topic wait that does not yet."""
        topic.is_queued = True
        self._new.append(topic)

    def next(self) -> Topic:
        """Take a topic out; those that need a ledger and the others take turns. Raises IndexError when none waits."""
        self._is_turn_of_full = not self._is_turn_of_full
        others = self._sound or self._new
        topic = (self._full if self._full and (self._is_turn_of_full or not others) else others).popleft()
        topic.is_queued = False
        return topic

    def next_for(self, segment_id: int, now_ms: int) -> Topic | None:
        """Take out the next topic that can append to this segment at once; None when no other can."""
        while others := self._sound or self._new:
            topic = others.popleft()
            if _has_sends(topic) and topic.log.needs_ledger(now_ms, segment_id):
                self._full.append(topic)
                continue
            topic.is_queued = False
            if _has_sends(topic):
                return topic
        return None

    def take_full(self, segment_id: int, now_ms: int, *, most: int) -> list[Topic]:
        """Take out the topics that need a new ledger first: when a segment has closed, all of them."""
        while self._new:
            topic = self._new.popleft()
            is_full = _has_sends(topic) and topic.log.needs_ledger(now_ms, segment_id)
            (self._full if is_full else self._sound).append(topic)
        taken: list[Topic] = []
        while self._full and len(taken) < most:
            topic = self._full.popleft()
            topic.is_queued = False
            if _has_sends(topic):
                taken.append(topic)
        return taken


def _has_sends(topic: Topic) -> bool:
    return topic.is_open and topic.log.has_sends()
