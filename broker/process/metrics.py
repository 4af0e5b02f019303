"""The page /metrics.

The page is made in slices, so that the broker can serve messages between two slices. prometheus_client makes all
metrics of its registry at once. So the registry has only a few metrics, which describe the broker as a whole, and this
module makes the metrics of topics, subscriptions and namespaces.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from prometheus_client import generate_latest

from broker.process.history_families import HISTORY
from broker.process.metric_families import (
    ANY_SUBSCRIPTION,
    ANY_TOPIC,
    PASSING_SUBSCRIPTION,
    STORED_SUBSCRIPTION,
    STORED_TOPIC,
    TOPICS_OF_NAMESPACE,
    Family,
    SplitFamily,
    state_family,
    states_family,
    subscription_rates,
    topic_rates,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from broker.core.topic_name import TopicName
    from broker.process.metric_families import AnySubscription, AnyTopic
    from broker.process.reports.standings import Standings
    from broker.topics.non_persistent.topics import NonPersistentTopics
    from broker.topics.rates import Rates
    from broker.topics.topics import Topics

__all__ = ["Metrics"]

_AnyFamily: TypeAlias = "Family[Any] | SplitFamily[Any]"
# The first argument is the labels without their closing brace, the second is the value.
_Put: TypeAlias = Callable[[str, float], None]

SLICE_S: Final = 0.001
_LOOK_EVERY: Final = 8


class Metrics:
    """Makes the page /metrics of one broker."""

    def __init__(
        self,
        topics: Topics,
        non_persistent: NonPersistentTopics,
        registry: CollectorRegistry,
        standings: Standings,
        rates: Rates,
        *,
        has_topics: bool,
    ) -> None:
        """If `has_topics` is false, the page has sums for each namespace instead of lines for each topic."""
        self._topics = topics
        self._non_persistent = non_persistent
        self._registry = registry
        self._has_topics = has_topics
        self._states = states_family(standings)
        self._stored_topic = [*STORED_TOPIC, *HISTORY, *topic_rates(rates)]
        self._stored_subscription = [
            *STORED_SUBSCRIPTION,
            *subscription_rates(rates),
            state_family(standings),
        ]

    def page(self) -> Iterator[bytes]:
        """Yield the page in slices, some of which are empty."""
        yield generate_latest(self._registry)
        page = _Page()
        stored = yield from page.labelled(self._topics.all())
        passing = yield from page.labelled(self._non_persistent.all())
        lines = page.each if self._has_topics else page.sums
        yield from page.sums([TOPICS_OF_NAMESPACE], stored.topics + passing.topics)
        yield from page.sums([self._states], stored.subscriptions)
        parts: tuple[tuple[Sequence[_AnyFamily], list[_Subject]], ...] = (
            (self._stored_topic, stored.topics),
            (ANY_TOPIC, stored.topics + passing.topics),
            (self._stored_subscription, stored.subscriptions),
            (PASSING_SUBSCRIPTION, passing.subscriptions),
            (ANY_SUBSCRIPTION, stored.subscriptions + passing.subscriptions),
        )
        for families, subjects in parts:
            yield from lines(families, subjects)
        yield page.end()


class _Subject(NamedTuple):
    labels: str
    namespace: str
    of: Any


class _Subjects(NamedTuple):
    topics: list[_Subject]
    subscriptions: list[_Subject]


class _Page:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._ends_s = time.perf_counter() + SLICE_S

    def labelled(self, topics: Sequence[AnyTopic]) -> Generator[bytes, None, _Subjects]:
        found = _Subjects([], [])
        subscriptions: list[AnySubscription] = []
        for topic in topics:
            subscriptions += topic.subscriptions.values()
            found.topics.append(_Subject(*_topic_labels(topic.name), topic))
            yield from self._slice_if_over()
        for each in subscriptions:
            labels, namespace = _topic_labels(each.topic_name)
            found.subscriptions.append(
                _Subject(f'{labels},subscription="{_escaped(each.name)}"', namespace, each)
            )
            yield from self._slice_if_over()
        return found

    def each(self, families: Sequence[_AnyFamily], subjects: Sequence[_Subject]) -> Iterator[bytes]:
        for family in families:
            self._head(family)
            add = _adder(family, self._writer(family.name))
            for start in range(0, len(subjects), _LOOK_EVERY):
                for labels, _, subject in subjects[start : start + _LOOK_EVERY]:
                    add(labels, subject)
                yield from self._slice_if_over()

    def sums(self, families: Sequence[_AnyFamily], subjects: Sequence[_Subject]) -> Iterator[bytes]:
        for family in families:
            if not family.adds_up:
                continue
            self._head(family)
            sums: defaultdict[str, float] = defaultdict(float)
            add = _adder(family, partial(_add_to, sums))
            for start in range(0, len(subjects), _LOOK_EVERY):
                for _, namespace, subject in subjects[start : start + _LOOK_EVERY]:
                    add(namespace, subject)
                yield from self._slice_if_over()
            write = self._writer(family.name)
            for labels, value in sums.items():
                write(labels, value)
                yield from self._slice_if_over()

    def end(self) -> bytes:
        text = "".join(self._lines)
        self._lines.clear()
        return text.encode()

    def _head(self, family: _AnyFamily) -> None:
        self._lines.append(f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n")

    def _writer(self, name: str) -> _Put:
        lines = self._lines

        def write(labels: str, value: float) -> None:
            lines.append(f"{name}{labels}}} {value:.17g}\n")

        return write

    def _slice_if_over(self) -> Iterator[bytes]:
        if time.perf_counter() >= self._ends_s:
            yield self.end()
            self._ends_s = time.perf_counter() + SLICE_S


def _adder(family: _AnyFamily, put: _Put) -> Callable[[str, Any], None]:
    if isinstance(family, SplitFamily):
        label, values_of = family.label, family.values

        def add(labels: str, subject: Any) -> None:
            for key, value in values_of(subject):
                put(f'{labels},{label}="{_escaped(key)}"', value)

    else:
        value_of = family.value

        def add(labels: str, subject: Any) -> None:
            value = value_of(subject)
            if value is not None:
                put(labels, value)

    return add


def _add_to(sums: defaultdict[str, float], labels: str, value: float) -> None:
    sums[labels] += value


def _topic_labels(name: TopicName) -> tuple[str, str]:
    namespace = f'{{cluster="vela",namespace="{_escaped(name.namespace_name)}"'
    return f'{namespace},topic="{_escaped(name.full)}"', namespace


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
