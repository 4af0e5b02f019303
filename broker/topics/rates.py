"""Compute rates per second from cumulative counts, smoothed over a few seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from broker.producers.producer import Producer
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["MEASURED_OVER_S", "Moving", "Rates"]

_WEIGHT = 0.4  # of the newest second: a change shows at once and has settled after about five reports
MEASURED_OVER_S = 5  # follows from that weight: older seconds have less than a tenth of it
_NOTHING_PER_S = 0.05
# Reports. Going through ten thousand topics at each one would cost as much as reporting may cost in all.
_FORGET_EVERY = 60
_TRICKLE_PER_S = 1.0  # messages: below this, a report without news sets the rate to 0


@dataclass(slots=True)
class Moving:
    """Topics and subscriptions whose rate is not yet 0."""

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
        # With a message a minute, one report shows the rate and the next one ends it, rather than six.
        is_trickle = self.first == first and self.second == second and self.first_rate < _TRICKLE_PER_S
        if is_trickle:
            self.first_rate = self.second_rate = 0.0
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
    """Rates of each topic and producer (messages and bytes in), subscription and consumer (messages out and acked).

    A consumer also has the rate of its redelivered messages.
    """

    def __init__(self) -> None:
        self._topics: dict[Topic, _Pair] = {}
        self._subscriptions: dict[Subscription, _Pair] = {}
        self._producers: WeakKeyDictionary[Producer, _Pair] = WeakKeyDictionary()
        self._consumers: WeakKeyDictionary[Consumer, tuple[_Pair, _Pair]] = WeakKeyDictionary()
        self._moving = Moving()
        self._looks = 0

    def of_topic(self, topic: Topic, messages: int, size_bytes: int, now_ms: int) -> tuple[float, float]:
        """Return messages and bytes per second since the last call, smoothed; 0 at first, and once closed."""
        if not topic.is_open:
            return 0.0, 0.0
        pair = self._topics.setdefault(topic, _Pair(messages, size_bytes, now_ms))
        rates = pair.update(messages, size_bytes, now_ms)
        (self._moving.topics.add if pair.is_moving() else self._moving.topics.discard)(topic)
        return rates

    def of_subscription(self, each: Subscription, out: int, acked: int, now_ms: int) -> tuple[float, float]:
        """Return messages delivered and acked per second since the last call, smoothed; 0 at first, and once closed."""
        if _is_gone(each):
            return 0.0, 0.0
        pair = self._subscriptions.setdefault(each, _Pair(out, acked, now_ms))
        rates = pair.update(out, acked, now_ms)
        (self._moving.subscriptions.add if pair.is_moving() else self._moving.subscriptions.discard)(each)
        return rates

    def of_producer(self, topic: Topic, producer: Producer, now_ms: int) -> tuple[float, float]:
        """Return messages and bytes per second, after `of_topic` of the same report.

        The topic is reported again until this rate is 0 too: receipts may come a report later than the messages.
        """
        counts = producer.messages_in, producer.bytes_in
        pair = self._producers.get(producer)
        if pair is None:
            pair = self._producers[producer] = _Pair(*counts, now_ms)
        rates = pair.update(*counts, now_ms)
        if pair.is_moving() and topic.is_open:
            self._moving.topics.add(topic)
        return rates

    def of_consumer(self, each: Subscription, consumer: Consumer, now_ms: int) -> tuple[float, float, float]:
        """Return messages delivered, acked and redelivered per second, after `of_subscription` of the same report.

        The subscription is reported again until these rates are 0 too.
        """
        pairs = self._consumers.get(consumer)
        out, acked, again = consumer.messages_out, consumer.messages_acked, consumer.messages_redelivered
        if pairs is None:
            pairs = self._consumers[consumer] = (_Pair(out, again, now_ms), _Pair(acked, 0, now_ms))
        rate_out, rate_again = pairs[0].update(out, again, now_ms)
        rate_acked, _ = pairs[1].update(acked, 0, now_ms)
        if (pairs[0].is_moving() or pairs[1].is_moving()) and not _is_gone(each):
            self._moving.subscriptions.add(each)
        return rate_out, rate_acked, rate_again

    def published_per_s(self, topic: Topic) -> float:
        """Return how many messages per second were published, as last reported."""
        pair = self._topics.get(topic)
        return 0.0 if pair is None else pair.first_rate

    def acked_per_s(self, subscription: Subscription) -> float:
        """Return how many messages per second were acked, as last reported."""
        pair = self._subscriptions.get(subscription)
        return 0.0 if pair is None else pair.second_rate

    def in_per_s(self, topic: Topic) -> tuple[float, float]:
        """Return how many messages and bytes per second were published, as last reported."""
        return _last(self._topics.get(topic))

    def out_per_s(self, subscription: Subscription) -> tuple[float, float]:
        """Return how many messages per second were delivered and acked, as last reported."""
        return _last(self._subscriptions.get(subscription))

    def producer_per_s(self, producer: Producer) -> tuple[float, float]:
        """Return how many messages and bytes per second this producer published, as last reported."""
        return _last(self._producers.get(producer))

    def consumer_per_s(self, consumer: Consumer) -> tuple[float, float, float]:
        """Return how many messages per second it got, acked and got again, as last reported."""
        out_and_again, acked = self._consumers.get(consumer, (None, None))
        rate_out, rate_again = _last(out_and_again)
        return rate_out, _last(acked)[0], rate_again

    def moving(self) -> Moving:
        """Return what must be reported again although nothing changed. Closed ones come a last time, with rate 0.

        Now and then it forgets closed topics and deleted subscriptions.
        """
        self._looks += 1
        if self._looks % _FORGET_EVERY == 0:
            self._topics = {topic: pair for topic, pair in self._topics.items() if topic.is_open}
            self._subscriptions = {
                each: pair for each, pair in self._subscriptions.items() if not _is_gone(each)
            }
        found = self._moving
        self._moving = Moving(
            {topic for topic in found.topics if topic.is_open},
            {each for each in found.subscriptions if not _is_gone(each)},
        )
        return found


def _last(pair: _Pair | None) -> tuple[float, float]:
    return (0.0, 0.0) if pair is None else (pair.first_rate, pair.second_rate)


def _is_gone(subscription: Subscription) -> bool:
    return subscription.is_deleted or not subscription.log.is_open
