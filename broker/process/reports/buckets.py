"""Count activity in buckets, which are the intervals of the console's charts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from broker.storage.history.points import PointRow
from vela.wire.latency_counts import summed

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["Buckets", "merged"]

logger = logging.getLogger(__name__)

_SLICE = 200  # Number of topics and subscriptions in one slice


class _Seen:
    __slots__ = ("backlog", "messages_acked", "messages_out", "messages_redelivered")

    def __init__(self, backlog: int) -> None:
        self.backlog = backlog
        self.messages_out = self.messages_acked = self.messages_redelivered = 0


class _SeenTopic:
    __slots__ = ("backlog", "bytes_in", "messages_in", "stored_bytes")

    def __init__(self, topic: Topic, messages_in: int, bytes_in: int) -> None:
        self.messages_in, self.bytes_in = messages_in, bytes_in
        self.backlog = _worst_backlog(topic)
        self.stored_bytes = sum(info.size_bytes for info in topic.log.ledgers.infos())


class Buckets:
    """Counts the activity of changed topics and subscriptions."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Subscription, _Seen] = WeakKeyDictionary()
        self._seen_topics: WeakKeyDictionary[Topic, _SeenTopic] = WeakKeyDictionary()
        self._newest: WeakValueDictionary[int, Topic] = WeakValueDictionary()
        self._topics: dict[int, set[Topic]] = {}
        self._subscriptions: dict[int, set[Subscription]] = {}
        self._noted: set[Topic | Subscription] = set()
        self._sums: dict[int, Counter[str]] = {}

    def note(self, topics: AbstractSet[Topic], subscriptions: AbstractSet[Subscription]) -> None:
        """Remember which topics and subscriptions changed."""
        for topic in topics - self._noted:
            self._topics.setdefault(topic.topic_id, set()).add(topic)
            if topic not in self._seen_topics:
                self._seen_topics[topic] = _SeenTopic(topic, topic.loaded_messages, topic.loaded_bytes)
                newest = self._newest.get(topic.topic_id)
                if newest is None or newest.owner_epoch <= topic.owner_epoch:
                    self._newest[topic.topic_id] = topic
        for each in subscriptions - self._noted:
            self._subscriptions.setdefault(each.log.topic_id, set()).add(each)
            if each not in self._seen:
                self._seen[each] = _Seen(each.cursor.backlog_messages)
        self._noted |= topics
        self._noted |= subscriptions

    def discard(self) -> None:
        """Forget which topics and subscriptions changed. Their activity is counted when they change again."""
        self._topics.clear()
        self._subscriptions.clear()
        self._noted.clear()
        self._sums.clear()

    def slices(self) -> Generator[list[PointRow]]:
        """Yield the rows of everything that changed since the last call.

        If the caller stops early, the next call yields the remaining rows.
        """
        rows: list[PointRow] = []
        looked_at = 0
        while ids := self._topics.keys() | self._subscriptions.keys():
            for topic_id in ids:
                try:
                    for row in self._rows(topic_id):
                        looked_at += 1
                        if row is not None:
                            rows.append(row)
                        if looked_at >= _SLICE:
                            yield rows
                            rows, looked_at = [], 0
                except Exception:
                    logger.exception("counting for the charts failed; points are missing: topic %s", topic_id)
                self._sums.pop(topic_id, None)
                self._noted -= self._topics.pop(topic_id, set())
                self._noted -= self._subscriptions.pop(topic_id, set())
        yield rows

    def _rows(self, topic_id: int) -> Iterator[PointRow | None]:
        """Yield a topic's rows, with None for each row without activity.

        If a topic was reloaded, the rows of its old and new objects are merged.
        """
        topics = set(self._topics.get(topic_id, ()))
        if (newest := self._newest.get(topic_id)) is not None:
            topics.add(newest)
        subscriptions = set(self._subscriptions.get(topic_id, ()))
        for topic in topics:  # A publish also changes the backlog of idle subscriptions
            subscriptions.update(topic.subscriptions.values())
        sums = self._sums.setdefault(topic_id, Counter())
        last: PointRow | None = None
        for each in sorted(subscriptions, key=lambda each: (_id_of_row(each), each.log.owner_epoch)):
            if last is not None and last.subscription_id != _id_of_row(each):
                yield _worth_storing(last)
                last = None
            row = self._take(topic_id, each)
            sums["messages_out"] += row.messages_out
            sums["messages_acked"] += row.messages_acked
            sums["messages_redelivered"] += row.messages_redelivered
            last = row if last is None else merged(last, row)
        yield _worth_storing(last)
        last = None
        is_other_size = False
        for topic in sorted(topics, key=lambda topic: topic.owner_epoch):
            size_before = self._seen_topics[topic].stored_bytes
            row = self._take_topic(topic)
            is_other_size |= row.stored_bytes != size_before
            last = row if last is None else merged(last, row)
        if last is not None:
            last = last._replace(
                messages_out=sums["messages_out"],
                messages_acked=sums["messages_acked"],
                messages_redelivered=sums["messages_redelivered"],
            )
            del self._sums[topic_id]
            yield last if is_other_size or _says_something(last) else None

    def _take(self, topic_id: int, each: Subscription) -> PointRow:
        backlog = each.cursor.backlog_messages
        seen = self._seen.get(each)
        if seen is None:
            seen = self._seen[each] = _Seen(backlog)
        counters = each.counters
        row = PointRow(
            topic_id,
            _id_of_row(each),
            None,
            None,
            each.messages_out - seen.messages_out,
            counters.messages_acked - seen.messages_acked,
            counters.messages_redelivered - seen.messages_redelivered,
            seen.backlog,
            backlog,
            max(seen.backlog, backlog),
            None,
            counters.ack_latencies.take(),
        )
        seen.messages_out, seen.messages_acked = each.messages_out, counters.messages_acked
        seen.messages_redelivered, seen.backlog = counters.messages_redelivered, backlog
        return row

    def _take_topic(self, topic: Topic) -> PointRow:
        seen = self._seen_topics[topic]
        ledgers = topic.log.ledgers
        now = self._seen_topics[topic] = _SeenTopic(topic, ledgers.total_messages, ledgers.total_bytes)
        return PointRow(
            topic.topic_id,
            0,
            now.messages_in - seen.messages_in,
            now.bytes_in - seen.bytes_in,
            0,
            0,
            0,
            seen.backlog,
            now.backlog,
            max(seen.backlog, now.backlog),
            now.stored_bytes,
            None,
        )


def merged(first: PointRow, second: PointRow) -> PointRow:
    """Merge two rows of one topic or subscription. `second` follows `first` in time."""
    return first._replace(
        messages_in=None if first.messages_in is None else first.messages_in + (second.messages_in or 0),
        bytes_in=None if first.bytes_in is None else first.bytes_in + (second.bytes_in or 0),
        messages_out=first.messages_out + second.messages_out,
        messages_acked=first.messages_acked + second.messages_acked,
        messages_redelivered=first.messages_redelivered + second.messages_redelivered,
        backlog=second.backlog,
        backlog_most=max(first.backlog_most or 0, second.backlog_most or 0),
        stored_bytes=second.stored_bytes,
        ack_latencies=_joined(first.ack_latencies, second.ack_latencies),
    )


def _joined(first: list[int] | None, second: list[int] | None) -> list[int] | None:
    return summed((first, second)) if first and second else first or second


def _id_of_row(each: Subscription) -> int:
    """Return the subscription's id, or 0 if the subscription gets no row of its own."""
    return each.subscription_id if each.is_durable and not each.is_deleted else 0


def _worth_storing(row: PointRow | None) -> PointRow | None:
    return row if row is not None and row.subscription_id and _says_something(row) else None


def _says_something(row: PointRow) -> bool:
    moved = row.messages_in or row.messages_out or row.messages_acked or row.messages_redelivered
    return bool(moved) or row.backlog != row.backlog_before


def _worst_backlog(topic: Topic) -> int:
    backlogs = (each.cursor.backlog_messages for each in topic.subscriptions.values() if each.is_durable)
    return max(backlogs, default=0)
