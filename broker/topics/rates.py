"""Compute smoothed rates per second from cumulative counts. A flow is a stream of counted messages.

Once a second, the broker reports changed topics and subscriptions to the tables that the console shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from broker.producers.producer import Producer
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["MEASURED_OVER_S", "Moving", "Rates"]

# With this weight, a rate settles in about five seconds.
_WEIGHT: Final = 0.4
MEASURED_OVER_S: Final = 5
_NOTHING_PER_S: Final = 0.05  # Lower rates count as 0
# A flow below this rate is slow. A slow flow is measured from message to message, not from second to second.
_SLOW_PER_S: Final = 1.0
# A slow flow has ended when a pause is this many times as long as the previous pause.
_PATIENCE: Final = 3
_LEAST_PATIENCE_MS: Final = MEASURED_OVER_S * 1000  # Other flows have ended after a pause of this length
_MOST_PATIENCE_MS: Final = 30_000
# Number of reports between two searches for closed topics. A search looks at all topics, which takes time.
_FORGET_EVERY: Final = 60

T = TypeVar("T")


@dataclass(slots=True)
class Moving:
    """The topics and subscriptions to report even if their counts have not changed."""

    topics: set[Topic] = field(default_factory=set)
    subscriptions: set[Subscription] = field(default_factory=set)


@dataclass(slots=True)
class _Flow:
    totals: tuple[int, ...]  # Cumulative counts; the first one counts messages
    seen_ms: int  # Time of the last report of this flow
    measured_ms: int  # Time when the rates were last computed
    changed_ms: int  # Time of the last report with new messages
    per_s: tuple[float, ...]
    ends_ms: int = 0  # Time when the rates become 0, unless new messages come before

    def update(self, totals: tuple[int, ...], now_ms: int, before_ms: int) -> tuple[float, ...]:
        """Return the rates.

        `before_ms` is the time of the broker's previous report. New messages came after that report: if it left out
        this flow, the counts had not changed.
        """
        seen_ms, self.seen_ms = max(self.seen_ms, before_ms), now_ms
        news = totals[0] - self.totals[0]
        if not news:
            if now_ms >= self.ends_ms:
                self.per_s = (0.0,) * len(totals)
            if self.per_s[0] < _SLOW_PER_S:
                return self.per_s
        pause_ms = now_ms - self.changed_ms
        is_rested = pause_ms > _MOST_PATIENCE_MS
        weight, since_s = _WEIGHT, _seconds(now_ms - self.measured_ms)
        if not self.per_s[0]:
            # If the time before a burst counted, 50 messages after a minute would be a slow flow.
            if news / _seconds(now_ms - seen_ms if is_rested else pause_ms) > _SLOW_PER_S:
                since_s = _seconds(now_ms - seen_ms)
            else:
                weight = 1 - (1 - _WEIGHT) ** since_s
        self.per_s = tuple(
            before + weight * ((total - counted) / since_s - before)
            for before, total, counted in zip(self.per_s, totals, self.totals, strict=True)
        )
        if self.per_s[0] < _NOTHING_PER_S:
            self.per_s = (0.0,) * len(totals)
        if news:
            is_slow = self.per_s[0] < _SLOW_PER_S and not is_rested
            patience_ms = min(_MOST_PATIENCE_MS, _PATIENCE * pause_ms) if is_slow else 0
            self.changed_ms, self.ends_ms = now_ms, now_ms + max(_LEAST_PATIENCE_MS, patience_ms)
        self.totals, self.measured_ms = totals, now_ms
        return self.per_s

    @property
    def look_again_ms(self) -> int | None:
        """The time to report the flow again, even if its counts have not changed.

        0 means in the next report. None means never, because the rate is 0.
        """
        if not self.per_s[0]:
            return None
        return 0 if self.per_s[0] >= _SLOW_PER_S else self.ends_ms


_Flows = tuple[_Flow, ...]
_Counts = tuple[tuple[int, ...], ...]


class Rates:
    """Computes the rates of topics, subscriptions, producers and consumers."""

    def __init__(self) -> None:
        self._topics: dict[Topic, _Flows] = {}
        self._subscriptions: dict[Subscription, _Flows] = {}
        self._producers: WeakKeyDictionary[Producer, _Flows] = WeakKeyDictionary()
        self._consumers: WeakKeyDictionary[Consumer, _Flows] = WeakKeyDictionary()
        self._topics_due_ms: dict[Topic, int] = {}
        self._subscriptions_due_ms: dict[Subscription, int] = {}
        self._looks = 0
        self._before_ms = self._report_ms = 0  # Times of the last two reports

    def of_topic(self, topic: Topic, messages: int, size_bytes: int, now_ms: int) -> tuple[float, float]:
        """Return messages and bytes per second.

        The rates are 0 at the first call, and after the topic is closed.
        """
        if not topic.is_open:
            return 0.0, 0.0
        flows = self._topics.get(topic)
        if flows is None:
            flows = self._topics[topic] = _begin(((messages, size_bytes),), now_ms)
        messages_rate, bytes_rate = _update(flows, ((messages, size_bytes),), now_ms, self._before_ms)
        self._topics_due_ms.pop(topic, None)
        _look_again(self._topics_due_ms, topic, flows)
        return messages_rate, bytes_rate

    def of_subscription(self, each: Subscription, out: int, acked: int, now_ms: int) -> tuple[float, float]:
        """Return messages delivered and acked per second.

        The rates are 0 at the first call, and after the subscription has ended or its topic is closed.
        """
        if _is_gone(each):
            return 0.0, 0.0
        flows = self._subscriptions.get(each)
        if flows is None:
            flows = self._subscriptions[each] = _begin(((out,), (acked,)), now_ms)
        rate_out, rate_acked = _update(flows, ((out,), (acked,)), now_ms, self._before_ms)
        self._subscriptions_due_ms.pop(each, None)
        _look_again(self._subscriptions_due_ms, each, flows)
        return rate_out, rate_acked

    def of_producer(self, topic: Topic, producer: Producer, now_ms: int) -> tuple[float, float]:
        """Return messages and bytes per second. In each report, call this after `of_topic`."""
        counts = ((producer.messages_in, producer.bytes_in),)
        flows = self._producers.get(producer)
        if flows is None:
            flows = self._producers[producer] = _begin(counts, now_ms)
        messages_rate, bytes_rate = _update(flows, counts, now_ms, self._before_ms)
        if topic.is_open:
            _look_again(self._topics_due_ms, topic, flows)
        return messages_rate, bytes_rate

    def of_consumer(self, each: Subscription, consumer: Consumer, now_ms: int) -> tuple[float, float, float]:
        """Return messages delivered, acked and redelivered per second.

        In each report, call this after `of_subscription`.
        """
        counts = (consumer.messages_out,), (consumer.messages_acked,), (consumer.messages_redelivered,)
        flows = self._consumers.get(consumer)
        if flows is None:
            flows = self._consumers[consumer] = _begin(counts, now_ms)
        rate_out, rate_acked, rate_again = _update(flows, counts, now_ms, self._before_ms)
        if not _is_gone(each):
            _look_again(self._subscriptions_due_ms, each, flows)
        return rate_out, rate_acked, rate_again

    def published_per_s(self, topic: Topic) -> float:
        """Return messages published per second, as last reported."""
        return self.in_per_s(topic)[0]

    def acked_per_s(self, subscription: Subscription) -> float:
        """Return messages acked per second, as last reported."""
        return self.out_per_s(subscription)[1]

    def in_per_s(self, topic: Topic) -> tuple[float, float]:
        """Return messages and bytes published per second, as last reported."""
        messages_rate, bytes_rate = _last(self._topics.get(topic), 2)
        return messages_rate, bytes_rate

    def out_per_s(self, subscription: Subscription) -> tuple[float, float]:
        """Return messages delivered and acked per second, as last reported."""
        rate_out, rate_acked = _last(self._subscriptions.get(subscription), 2)
        return rate_out, rate_acked

    def producer_per_s(self, producer: Producer) -> tuple[float, float]:
        """Return messages and bytes published per second, as last reported."""
        messages_rate, bytes_rate = _last(self._producers.get(producer), 2)
        return messages_rate, bytes_rate

    def consumer_per_s(self, consumer: Consumer) -> tuple[float, float, float]:
        """Return messages delivered, acked and redelivered per second, as last reported."""
        rate_out, rate_acked, rate_again = _last(self._consumers.get(consumer), 3)
        return rate_out, rate_acked, rate_again

    def moving(self, now_ms: int) -> Moving:
        """Return the topics and subscriptions to report now, even if their counts have not changed.

        Closed topics and ended subscriptions that had a rate are reported once more, with rate 0.
        """
        self._looks += 1
        self._before_ms, self._report_ms = self._report_ms, now_ms
        if self._looks % _FORGET_EVERY == 0:
            self._topics = {topic: flows for topic, flows in self._topics.items() if topic.is_open}
            self._subscriptions = {
                each: flows for each, flows in self._subscriptions.items() if not _is_gone(each)
            }
        closed = {topic for topic in self._topics_due_ms if not topic.is_open}
        gone = {each for each in self._subscriptions_due_ms if _is_gone(each)}
        found = Moving(
            closed | {topic for topic, due_ms in self._topics_due_ms.items() if due_ms <= now_ms},
            gone | {each for each, due_ms in self._subscriptions_due_ms.items() if due_ms <= now_ms},
        )
        for topic in closed:
            del self._topics_due_ms[topic]
        for each in gone:
            del self._subscriptions_due_ms[each]
        return found


def _begin(counts: _Counts, now_ms: int) -> _Flows:
    return tuple(_Flow(totals, now_ms, now_ms, now_ms, (0.0,) * len(totals)) for totals in counts)


def _update(flows: _Flows, counts: _Counts, now_ms: int, before_ms: int) -> list[float]:
    return [
        rate
        for flow, totals in zip(flows, counts, strict=True)
        for rate in flow.update(totals, now_ms, before_ms)
    ]


def _look_again(due_ms: dict[T, int], of: T, flows: _Flows) -> None:
    for flow in flows:
        if (look_ms := flow.look_again_ms) is not None:
            due_ms[of] = min(look_ms, due_ms.get(of, look_ms))


def _last(flows: _Flows | None, number: int) -> list[float]:
    return [0.0] * number if flows is None else [rate for flow in flows for rate in flow.per_s]


def _seconds(elapsed_ms: int) -> float:
    return max(1, elapsed_ms) / 1000


def _is_gone(subscription: Subscription) -> bool:
    # A subscription that is not durable ends with its last consumer.
    has_ended = subscription.is_deleted or not (subscription.is_durable or subscription.consumers)
    return has_ended or not subscription.log.is_open
