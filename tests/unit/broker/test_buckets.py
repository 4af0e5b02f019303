"""Buckets count each change once, however many slices the counting takes and wherever it stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.core.subscription.ack_latencies import AckLatencies
from broker.process.reports.buckets import Buckets
from broker.storage.history.points import PointRow


class Subscription:
    """The values of a subscription that buckets read."""

    def __init__(self, number: int, epoch: int = 1, *, is_durable: bool = True) -> None:
        self.subscription_id = number
        self.is_durable = is_durable
        self.is_deleted = False
        self.log = SimpleNamespace(topic_id=1, owner_epoch=epoch)
        self.messages_out = 0
        self.counters = SimpleNamespace(
            messages_acked=0, messages_redelivered=0, ack_latencies=AckLatencies()
        )
        self.cursor = SimpleNamespace(backlog_messages=0)

    def work(self, out: int, acked: int, backlog: int) -> None:
        """Count messages delivered and acked, and set the backlog."""
        self.messages_out += out
        self.counters.messages_acked += acked
        self.cursor.backlog_messages = backlog


class Topic:
    """The values of a topic that buckets read. It had 100 messages when it was loaded."""

    topic_id = 1
    loaded_messages = 100
    loaded_bytes = 1000

    def __init__(self, *subscriptions: Subscription, epoch: int = 1) -> None:
        self.owner_epoch = epoch
        self.subscriptions = {each.subscription_id: each for each in subscriptions}
        self.stored_bytes = 1000
        self.log = SimpleNamespace(
            ledgers=SimpleNamespace(
                total_messages=100,
                total_bytes=1000,
                infos=lambda: [SimpleNamespace(size_bytes=self.stored_bytes)],
            )
        )

    def publish(self, count: int) -> None:
        """Count stored messages of ten bytes each."""
        self.log.ledgers.total_messages += count
        self.log.ledgers.total_bytes += 10 * count
        self.stored_bytes += 10 * count


def noted(buckets: Buckets, topic: Any, *more: Any) -> None:
    """Tell the buckets that the topic and its subscriptions changed."""
    buckets.note({topic, *more}, set(topic.subscriptions.values()))


def rows(buckets: Buckets) -> dict[int, PointRow]:
    """Return the bucket's rows by subscription id."""
    found = [row for some in buckets.slices() for row in some]
    assert len({row.subscription_id for row in found}) == len(found)
    return {row.subscription_id: row for row in found}


def test_unchanged_figures_have_no_row() -> None:
    buckets, topic = Buckets(), Topic(Subscription(7))
    noted(buckets, topic)
    assert rows(buckets) == {}
    noted(buckets, topic)
    assert rows(buckets) == {}


def test_traffic_before_the_first_report_counts() -> None:
    topic = Topic(Subscription(7))
    topic.publish(5)
    buckets = Buckets()
    noted(buckets, topic)
    found = rows(buckets)
    assert (found[0].messages_in, found[0].bytes_in, found[0].stored_bytes) == (5, 50, 1050)


def test_a_topic_that_cannot_be_counted_does_not_keep_others_from_their_points() -> None:
    buckets, broken, sound = Buckets(), Topic(Subscription(7)), Topic(Subscription(8))
    sound.topic_id = 2
    sound.subscriptions[8].log.topic_id = 2
    for topic in (broken, sound):
        noted(buckets, topic)
        topic.publish(5)
    del broken.subscriptions[7].counters
    assert list(rows(buckets)) == [0]
    assert rows(buckets) == {}


def test_a_trim_is_a_change_of_the_topic_alone() -> None:
    buckets, topic = Buckets(), Topic(Subscription(7))
    noted(buckets, topic)
    topic.stored_bytes = 300
    assert {number: row.stored_bytes for number, row in rows(buckets).items()} == {0: 300}


def test_readers_and_deleted_subscriptions_count_for_their_topic() -> None:
    reader, deleted, kept = Subscription(5, is_durable=False), Subscription(6), Subscription(7)
    buckets, topic = Buckets(), Topic(reader, deleted, kept)
    noted(buckets, topic)
    for each in (reader, deleted, kept):
        each.work(2, 1, 0)
    deleted.is_deleted = True
    found = rows(buckets)
    assert found.keys() == {0, 7}
    assert (found[0].messages_out, found[0].messages_acked) == (6, 3)


def test_topics_that_followed_each_other_in_memory_share_one_row() -> None:
    old, new = Subscription(7), Subscription(7, epoch=2)
    buckets, before, after = Buckets(), Topic(old), Topic(new, epoch=2)
    noted(buckets, before)
    before.publish(3)
    old.work(3, 1, 2)
    new.work(0, 0, 2)
    noted(buckets, after)
    after.publish(4)
    new.work(4, 0, 6)
    found = rows(buckets)
    assert (found[7].messages_out, found[7].backlog_before, found[7].backlog, found[7].backlog_most) == (
        7,
        0,
        6,
        6,
    )
    assert (found[0].messages_in, found[0].messages_out, found[0].backlog) == (7, 7, 6)


def test_a_count_that_is_stopped_goes_on_in_the_next_bucket() -> None:
    subscriptions = [Subscription(number) for number in range(1, 1001)]
    buckets, topic = Buckets(), Topic(*subscriptions)
    noted(buckets, topic)
    topic.publish(1)
    for each in subscriptions:
        each.work(1, 0, 1)
    slices = buckets.slices()
    first = next(slices)
    assert 100 < len(first) < 300
    slices.close()
    second = rows(buckets)
    assert {row.subscription_id for row in first}.isdisjoint(second)
    assert len(first) + len(second) == 1001
    assert second[0].messages_out == 1000
    assert rows(buckets) == {}


def test_ack_latencies_begin_again_with_each_bucket_and_are_joined_over_objects() -> None:
    old, new = Subscription(7), Subscription(7, epoch=2)
    buckets, before, after = Buckets(), Topic(old), Topic(new, epoch=2)
    noted(buckets, before)
    noted(buckets, after)
    old.work(2, 2, 0)
    new.work(1, 1, 0)
    old.counters.ack_latencies.count(1, 2)
    new.counters.ack_latencies.count(2, 1)
    found = rows(buckets)
    assert (found[7].ack_latencies, found[0].ack_latencies) == ([0, 2, 1], None)
    noted(buckets, after)
    new.work(1, 0, 0)
    assert rows(buckets)[7].ack_latencies is None
