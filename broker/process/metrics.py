"""The page /metrics: the series of the process, then those of each topic and subscription.

The page is made in slices of about a millisecond, so that the broker serves messages between two slices.
prometheus_client makes the process's part. It takes 10 µs a line and can only make a whole page at once. A large
broker has a hundred thousand lines for topics and subscriptions, so this module writes those itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prometheus_client import generate_latest

from broker.process.history_families import HISTORY
from broker.process.metric_families import (
    ANY_SUBSCRIPTION,
    ANY_TOPIC,
    PASSING_SUBSCRIPTION,
    STORED_SUBSCRIPTION,
    STORED_TOPIC,
    Family,
    SplitFamily,
    state_family,
    subscription_rates,
    topic_rates,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from broker.core.topic_name import TopicName
    from broker.process.reports.standings import Standings
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.non_persistent.topics import NonPersistentTopics
    from broker.topics.rates import Rates
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["Metrics"]

_Labelled: TypeAlias = "tuple[str, Any]"  # labels without the closing brace, and the topic or subscription

SLICE_S: Final = 0.001
_LOOK_EVERY: Final = 8  # topics or subscriptions between two looks at the clock


class Metrics:
    """The pages of one broker."""

    def __init__(
        self,
        topics: Topics,
        non_persistent: NonPersistentTopics,
        registry: CollectorRegistry,
        standings: Standings,
        rates: Rates,
    ) -> None:
        self._topics = topics
        self._non_persistent = non_persistent
        self._registry = registry
        self._stored_topic = [*STORED_TOPIC, *HISTORY, *topic_rates(rates)]
        self._stored_subscription = [
            *STORED_SUBSCRIPTION,
            *subscription_rates(rates),
            state_family(standings),
        ]

    def page(self) -> Iterator[bytes]:
        """Yield the page in slices that each take about `SLICE_S` to make; some are empty. Reads no database.

        A topic or subscription that comes or goes while the page is made may or may not be on it.
        """
        yield generate_latest(self._registry)
        page = _Page(self._stored_topic, self._stored_subscription)
        yield from page.slices(self._topics.all(), self._non_persistent.all())


class _Page:
    def __init__(
        self,
        stored_topic: Sequence[Family[Topic] | SplitFamily[Topic]],
        stored_subscription: Sequence[Family[Subscription] | SplitFamily[Subscription]],
    ) -> None:
        self._stored_topic = stored_topic
        self._stored_subscription = stored_subscription
        self._lines: list[str] = []
        self._ends_s = time.perf_counter() + SLICE_S

    def slices(self, stored: Sequence[Topic], passing: Sequence[NonPersistentTopic]) -> Iterator[bytes]:
        stored_topics: list[_Labelled] = []
        passing_topics: list[_Labelled] = []
        stored_subscriptions: list[_Labelled] = []
        passing_subscriptions: list[_Labelled] = []
        for topics, labelled_topics, labelled_subscriptions in (
            (stored, stored_topics, stored_subscriptions),
            (passing, passing_topics, passing_subscriptions),
        ):
            subscriptions: list[Any] = []
            for topic in topics:
                subscriptions += topic.subscriptions.values()
                labelled_topics.append((_topic_labels(topic.name), topic))
                yield from self._slice_if_over()
            for each in subscriptions:
                labels = f'{_topic_labels(each.topic_name)},subscription="{_escaped(each.name)}"'
                labelled_subscriptions.append((labels, each))
                yield from self._slice_if_over()
        yield from self._families(self._stored_topic, stored_topics)
        yield from self._families(ANY_TOPIC, stored_topics + passing_topics)
        yield from self._families(self._stored_subscription, stored_subscriptions)
        yield from self._families(PASSING_SUBSCRIPTION, passing_subscriptions)
        yield from self._families(ANY_SUBSCRIPTION, stored_subscriptions + passing_subscriptions)
        yield self._slice()

    def _families(
        self, families: Sequence[Family[Any] | SplitFamily[Any]], subjects: Sequence[_Labelled]
    ) -> Iterator[bytes]:
        for family in families:
            self._lines.append(f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n")
            add = self._split_lines_of(family) if isinstance(family, SplitFamily) else self._line_of(family)
            for start in range(0, len(subjects), _LOOK_EVERY):
                for labels, subject in subjects[start : start + _LOOK_EVERY]:
                    add(labels, subject)
                yield from self._slice_if_over()

    def _line_of(self, family: Family[Any]) -> Callable[[str, Any], None]:
        name, value_of, lines = family.name, family.value, self._lines

        def add(labels: str, subject: Any) -> None:
            value = value_of(subject)
            if value is not None:
                lines.append(f"{name}{labels}}} {value:.17g}\n")

        return add

    def _split_lines_of(self, family: SplitFamily[Any]) -> Callable[[str, Any], None]:
        lines = self._lines

        def add(labels: str, subject: Any) -> None:
            for key, value in family.values(subject):
                lines.append(f'{family.name}{labels},{family.label}="{_escaped(key)}"}} {value:.17g}\n')

        return add

    def _slice_if_over(self) -> Iterator[bytes]:
        if time.perf_counter() >= self._ends_s:
            yield self._slice()
            self._ends_s = time.perf_counter() + SLICE_S

    def _slice(self) -> bytes:
        text = "".join(self._lines)
        self._lines.clear()
        return text.encode()


def _topic_labels(name: TopicName) -> str:
    return f'{{cluster="vela",namespace="{_escaped(name.namespace_name)}",topic="{_escaped(name.full)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
