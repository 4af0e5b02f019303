"""Rates per second out of cumulative counts, smoothed over a few seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.service.subscription import Subscription
    from broker.service.topic import Topic

__all__ = ["Moving", "Rates"]

_WEIGHT = 0.4  # of the newest second: a change is seen at once and settled after about five reports
_NOTHING_PER_S = 0.05


@dataclass(slots=True)
class Moving:
    """Who has a rate that is not 0 yet."""

    topics: set[Topic] = field(default_factory=set)
    subscriptions: set[Subscription] = field(default_factory=set)


@dataclass(slots=True)
class _Pair:
    first: int
    second: int
    at_ms: int
    first_rate: float = 0.0
    second_rate: float = 0.0

    def update(self, first: int, second: int, now_ms: int) -> tuple[float, float]:
        elapsed_s = max(0.001, (now_ms - self.at_ms) / 1000)
        self.first_rate += _WEIGHT * ((first - self.first) / elapsed_s - self.first_rate)
        self.second_rate += _WEIGHT * ((second - self.second) / elapsed_s - self.second_rate)
        if abs(self.first_rate) < _NOTHING_PER_S:
            self.first_rate = 0.0
        if abs(self.second_rate) < _NOTHING_PER_S:
            self.second_rate = 0.0
        self.first, self.second, self.at_ms = first, second, now_ms
        return self.first_rate, self.second_rate

    def is_moving(self) -> bool:
        return bool(self.first_rate or self.second_rate)


class Rates:
    """One pair of rates a topic (messages, bytes in) and a subscription (messages out, acked)."""

    def __init__(self) -> None:
        self._topics: dict[Topic, _Pair] = {}
        self._subscriptions: dict[Subscription, _Pair] = {}

    def of_topic(self, topic: Topic, messages: int, size_bytes: int, now_ms: int) -> tuple[float, float]:
        """Messages and bytes per second since the last call, smoothed; 0 at the first."""
        pair = self._topics.setdefault(topic, _Pair(messages, size_bytes, now_ms))
        return pair.update(messages, size_bytes, now_ms)

    def of_subscription(self, each: Subscription, out: int, acked: int, now_ms: int) -> tuple[float, float]:
        """Messages delivered and acked per second since the last call, smoothed; 0 at the first."""
        pair = self._subscriptions.setdefault(each, _Pair(out, acked, now_ms))
        return pair.update(out, acked, now_ms)

    def still_moving(self) -> Moving:
        """Whoever must be reported again although nothing changed; who is gone or still is forgotten."""
        self._topics = {topic: pair for topic, pair in self._topics.items() if topic.is_open}
        self._subscriptions = {
            each: pair
            for each, pair in self._subscriptions.items()
            if each.topic.is_open and not each.is_deleted
        }
        return Moving(
            {topic for topic, pair in self._topics.items() if pair.is_moving()},
            {each for each, pair in self._subscriptions.items() if pair.is_moving()},
        )
