"""The statistics of a partitioned topic are those of its partitions taken together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.doors.admin.statistics.merged import merged
from broker.doors.admin.statistics.values import ConsumerStats, PublisherStats, SubscriptionStats, TopicStats

NUMBERS = st.integers(0, 1000)
RATES = NUMBERS.map(float)


def publisher(name: str, rate: float) -> PublisherStats:
    return PublisherStats(
        accessMode="Shared",
        msgRateIn=rate,
        producerId=1,
        producerName=name,
        address="/127.0.0.1:1",
        connectedSince="2026-01-01T00:00:00Z",
        clientVersion="x",
        metadata={},
    )


def consumer(name: str, permits: int) -> ConsumerStats:
    return ConsumerStats(
        consumerName=name,
        address="/127.0.0.1:1",
        connectedSince="2026-01-01T00:00:00Z",
        clientVersion="x",
        availablePermits=permits,
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
            consumers=[consumer("ann", draw(NUMBERS))],
        )
        for name in draw(st.sets(st.sampled_from("ab")))
    }
    return TopicStats(
        msgRateIn=draw(RATES),
        msgThroughputIn=draw(RATES),
        msgInCounter=draw(NUMBERS),
        backlogQuotaLimitSize=draw(st.sampled_from([-1, 1000])),
        oldestBacklogMessageAgeSeconds=draw(st.sampled_from([-1, 5, 9])),
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


@given(topics(), topics(), topics())
def test_the_order_in_which_parts_are_merged_does_not_matter(
    a: TopicStats, b: TopicStats, c: TopicStats
) -> None:
    assert merged([merged([a, b]), c]) == merged([a, merged([b, c])]) == merged([a, b, c])


def test_no_parts_are_an_empty_topic() -> None:
    assert merged([]) == TopicStats()
