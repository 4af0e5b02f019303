"""The statistics of a partitioned topic are those of its partitions taken together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.doors.admin.statistics.merged import merged
from broker.doors.admin.statistics.values import ConsumerStats, PublisherStats, SubscriptionStats, TopicStats

NUMBERS = st.integers(0, 1000)
RATES = NUMBERS.map(float)
ASCENDING = (
    "1970-01-01T00:00:00Z",
    "2026-01-01T00:00:01Z",
    "2026-01-01T00:00:01.2Z",
    "2026-01-01T00:00:01.25Z",
)
TIMES = st.sampled_from(ASCENDING)


def publisher(name: str, rate: float, average_bytes: float = 2.0) -> PublisherStats:
    return PublisherStats(
        accessMode="Shared",
        msgRateIn=rate,
        msgThroughputIn=rate * average_bytes,
        averageMsgSize=average_bytes if rate else 0.0,
        producerId=1,
        producerName=name,
        address="/127.0.0.1:1",
        connectedSince="2026-01-01T00:00:00Z",
        clientVersion="x",
        metadata={},
    )


def consumer(name: str, permits: int, first_ms: int, ack_time: str) -> ConsumerStats:
    return ConsumerStats(
        consumerName=name,
        address="/127.0.0.1:1",
        connectedSince="2026-01-01T00:00:00Z",
        clientVersion="x",
        availablePermits=permits,
        firstMessagesSentTimestamp=first_ms,
        lastAckedTime=ack_time,
        lastConsumedTime=ack_time,
        metadata={},
    )


@st.composite
def topics(draw: st.DrawFn) -> TopicStats:
    subscriptions = {
        name: SubscriptionStats(
            type="Shared",
            msgBacklog=draw(NUMBERS),
            lastAckedTimestamp=draw(NUMBERS),
            blockedSubscriptionOnUnackedMsgs=draw(st.booleans()),
            consumers=[consumer("ann", draw(NUMBERS), draw(st.sampled_from([0, 5, 9])), draw(TIMES))],
        )
        for name in draw(st.sets(st.sampled_from("ab")))
    }
    return TopicStats(
        msgRateIn=draw(RATES),
        msgThroughputIn=draw(RATES),
        msgInCounter=draw(NUMBERS),
        backlogQuotaLimitSize=draw(st.sampled_from([-1, 1000])),
        oldestBacklogMessageAgeSeconds=draw(st.sampled_from([-1, 5, 9])),
        earliestMsgPublishTimeInBacklogs=draw(st.sampled_from([0, 5, 9])),
        oldestBacklogMessageSubscriptionName=draw(st.sampled_from("ab")),
        publishers=[publisher("pam", draw(RATES))],
        subscriptions=subscriptions,
    )


@given(st.lists(topics(), min_size=1, max_size=4))
def test_amounts_are_added_and_the_rest_is_the_largest(parts: list[TopicStats]) -> None:
    whole = merged(parts)
    assert whole.msgInCounter == sum(each.msgInCounter for each in parts)
    assert whole.backlogQuotaLimitSize == max(each.backlogQuotaLimitSize for each in parts)
    assert whole.oldestBacklogMessageAgeSeconds == max(each.oldestBacklogMessageAgeSeconds for each in parts)
    (pam,) = whole.publishers
    assert pam.msgRateIn == sum(each.publishers[0].msgRateIn for each in parts)
    for name, found in whole.subscriptions.items():
        mine = [each.subscriptions[name] for each in parts if name in each.subscriptions]
        assert found.msgBacklog == sum(each.msgBacklog for each in mine)
        assert found.lastAckedTimestamp == max(each.lastAckedTimestamp for each in mine)
        assert found.blockedSubscriptionOnUnackedMsgs == any(
            each.blockedSubscriptionOnUnackedMsgs for each in mine
        )
        (ann,) = found.consumers
        assert ann.availablePermits == sum(each.consumers[0].availablePermits for each in mine)
        firsts = [each.consumers[0].firstMessagesSentTimestamp for each in mine]
        assert ann.firstMessagesSentTimestamp == min(filter(None, firsts), default=0)
        assert ASCENDING.index(ann.lastAckedTime) == max(
            ASCENDING.index(each.consumers[0].lastAckedTime) for each in mine
        )


@given(topics(), topics(), topics())
def test_the_order_in_which_parts_are_merged_does_not_matter(
    a: TopicStats, b: TopicStats, c: TopicStats
) -> None:
    assert merged([merged([a, b]), c]) == merged([a, merged([b, c])]) == merged([a, b, c])


def test_a_publishers_average_size_weighs_its_partitions_by_their_rates() -> None:
    parts = [
        TopicStats(publishers=[publisher("pam", rate, size)]) for rate, size in ((3.0, 100.0), (1.0, 20.0))
    ]
    (pam,) = merged(parts).publishers
    assert pam.averageMsgSize == 80.0
    assert merged([TopicStats(publishers=[publisher("pam", 0.0)])] * 2).publishers[0].averageMsgSize == 0.0


def test_the_oldest_backlog_is_that_of_the_partition_with_the_earliest_message() -> None:
    parts = [
        TopicStats(oldestBacklogMessageSubscriptionName=name, earliestMsgPublishTimeInBacklogs=earliest_ms)
        for name, earliest_ms in (("late", 9), ("oldest", 5), (None, 0))
    ]
    whole = merged(parts)
    assert (whole.oldestBacklogMessageSubscriptionName, whole.earliestMsgPublishTimeInBacklogs) == (
        "oldest",
        5,
    )
    assert merged(parts[2:]).oldestBacklogMessageSubscriptionName is None


def test_no_parts_are_an_empty_topic() -> None:
    assert merged([]) == TopicStats()
