"""Metrics of topics, subscriptions and namespaces. The prefix `vela_` marks metrics that Pulsar does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from broker.core.subscription.standing import SubscriptionState
from broker.topics.topic import Topic

if TYPE_CHECKING:
    from broker.process.reports.standings import Standings
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.subscription import NonPersistentSubscription
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.rates import Rates

    AnyTopic: TypeAlias = Topic | NonPersistentTopic
    AnySubscription: TypeAlias = Subscription | NonPersistentSubscription

__all__ = [
    "ANY_SUBSCRIPTION",
    "ANY_TOPIC",
    "PASSING_SUBSCRIPTION",
    "STORED_SUBSCRIPTION",
    "STORED_TOPIC",
    "TOPICS_OF_NAMESPACE",
    "Family",
    "SplitFamily",
    "state_family",
    "states_family",
    "subscription_rates",
    "topic_rates",
]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Family(Generic[S]):
    """A metric with one number for each topic or subscription. If `value` returns None, the number is left out."""

    name: str
    kind: str
    text: str
    value: Callable[[S], float | None]
    adds_up: bool = True  # Whether the sum over a namespace is meaningful


@dataclass(frozen=True, slots=True)
class SplitFamily(Generic[S]):
    """A metric with several numbers for each topic or subscription. A label tells the numbers apart."""

    name: str
    kind: str
    text: str
    label: str
    values: Callable[[S], Iterable[tuple[str, float]]]
    adds_up: bool = True


def state_family(standings: Standings) -> Family[Subscription]:
    """Return the metric for the state of each durable subscription."""
    return Family(
        "vela_subscription_state",
        "gauge",
        ", ".join(f"{state.value} {state.words}" for state in SubscriptionState),
        lambda subscription: standings.state(subscription) if subscription.is_durable else None,
        adds_up=False,
    )


def states_family(standings: Standings) -> SplitFamily[Subscription]:
    """Return the metric that counts a namespace's durable subscriptions in each state."""

    def one(subscription: Subscription) -> Iterable[tuple[str, float]]:
        return [(standings.state(subscription).words, 1)] if subscription.is_durable else []

    return SplitFamily(
        "vela_namespace_subscriptions", "gauge", "subscriptions of a namespace by their state", "state", one
    )


def topic_rates(rates: Rates) -> list[Family[Topic]]:
    """Return the metrics for a topic's rates."""
    return [
        Family(
            "pulsar_rate_in", "gauge", "messages published a second", lambda topic: rates.in_per_s(topic)[0]
        ),
        Family(
            "pulsar_throughput_in",
            "gauge",
            "bytes published a second",
            lambda topic: rates.in_per_s(topic)[1],
        ),
        Family(
            "pulsar_rate_out",
            "gauge",
            "messages delivered a second, over all subscriptions",
            lambda topic: sum(rates.out_per_s(each)[0] for each in topic.subscriptions.values()),
        ),
    ]


def subscription_rates(rates: Rates) -> list[Family[Subscription]]:
    """Return the metrics for a subscription's rates."""
    return [
        Family(
            "pulsar_subscription_msg_rate_out",
            "gauge",
            "messages delivered a second",
            lambda subscription: rates.out_per_s(subscription)[0],
        ),
        Family(
            "pulsar_subscription_msg_ack_rate",
            "gauge",
            "messages acked a second",
            lambda subscription: rates.out_per_s(subscription)[1],
        ),
    ]


def _largest_backlog_bytes(topic: Topic) -> int:
    return max(
        (each.cursor.backlog_bytes for each in topic.subscriptions.values() if each.is_durable), default=0
    )


def _quota_seconds(topic: Topic) -> float:
    limit_ms = topic.policies.backlog_quota_ms
    return -1 if limit_ms < 0 else limit_ms / 1000


def _breach(topic: Topic) -> Iterable[tuple[str, float]]:
    breach = topic.quota.breach
    return [] if breach is None else [(breach.subscription, 1)]


STORED_TOPIC: Final[list[Family[Topic] | SplitFamily[Topic]]] = [
    Family(
        "vela_topic_delayed_entries",
        "gauge",
        "delayed entries that are not due yet",
        lambda topic: len(topic.delayed),
    ),
    Family(
        "pulsar_storage_size",
        "gauge",
        "bytes stored in the topic's ledgers",
        lambda topic: sum(ledger.size_bytes for ledger in topic.log.ledgers),
    ),
    Family(
        "pulsar_storage_backlog_size",
        "gauge",
        "bytes that the slowest subscription has not acked",
        _largest_backlog_bytes,
    ),
    Family(
        "pulsar_storage_backlog_quota_limit",
        "gauge",
        "the backlog quota in bytes; -1 = none",
        lambda topic: topic.policies.backlog_quota_bytes,
        adds_up=False,
    ),
    Family(
        "pulsar_storage_backlog_quota_limit_time",
        "gauge",
        "the backlog quota in seconds; -1 = none",
        _quota_seconds,
        adds_up=False,
    ),
    SplitFamily(
        "vela_backlog_quota_exceeded",
        "gauge",
        "1 while the topic takes no messages because of this subscription's backlog",
        "subscription",
        _breach,
        adds_up=False,
    ),
    SplitFamily(
        "pulsar_storage_backlog_quota_exceeded_evictions_total",
        "counter",
        "how often messages of the slowest subscription were skipped because it was over the backlog quota",
        "quota_type",
        lambda topic: topic.quota.evictions.items() if topic.quota.is_set else (),
    ),
    Family(
        "vela_duplicate_sends_total",
        "counter",
        "repeated sends that were not stored again",
        lambda topic: None if topic.deduplication is None else topic.deduplication.duplicates,
    ),
]

TOPICS_OF_NAMESPACE: Final[Family[AnyTopic]] = Family(
    "pulsar_topics_count", "gauge", "topics of a namespace in memory", lambda topic: 1
)

ANY_TOPIC: Final[list[Family[AnyTopic] | SplitFamily[AnyTopic]]] = [
    Family(
        "pulsar_subscriptions_count",
        "gauge",
        "subscriptions, readers included",
        lambda topic: len(topic.subscriptions),
    ),
    Family("pulsar_producers_count", "gauge", "connected producers", lambda topic: len(topic.producers)),
    Family(
        "pulsar_consumers_count",
        "gauge",
        "connected consumers",
        lambda topic: sum(len(each.consumers) for each in topic.subscriptions.values()),
    ),
    Family(
        "pulsar_in_messages_total",
        "counter",
        "messages stored since the topic was created; for a non-persistent topic, received",
        lambda topic: topic.log.ledgers.total_messages if isinstance(topic, Topic) else topic.messages_in,
    ),
    Family(
        "pulsar_in_bytes_total",
        "counter",
        "bytes stored since the topic was created; for a non-persistent topic, received",
        lambda topic: topic.log.ledgers.total_bytes if isinstance(topic, Topic) else topic.bytes_in,
    ),
    Family(
        "pulsar_publish_rate_limit_times",
        "counter",
        "how often the publish rate limit stopped a producer",
        lambda topic: None if topic.publish_limit is None else topic.publish_limit.times,
    ),
]

STORED_SUBSCRIPTION: Final[list[Family[Subscription] | SplitFamily[Subscription]]] = [
    Family(
        "pulsar_subscription_back_log",
        "gauge",
        "entries not acked",
        lambda subscription: subscription.cursor.backlog_entries,
    ),
    Family(
        "pulsar_subscription_back_log_no_delayed",
        "gauge",
        "entries not acked, without those that are delayed",
        lambda subscription: max(0, subscription.cursor.backlog_entries - subscription.delayed_entries),
    ),
    Family(
        "pulsar_subscription_delayed",
        "gauge",
        "entries that are delayed",
        lambda subscription: subscription.delayed_entries,
    ),
    Family(
        "vela_subscription_backlog_messages",
        "gauge",
        "messages not acked",
        lambda subscription: subscription.cursor.backlog_messages,
    ),
    Family(
        "pulsar_subscription_unacked_messages",
        "gauge",
        "messages delivered and not acked",
        lambda subscription: subscription.dispatcher.unacked_messages,
    ),
    Family(
        "pulsar_subscription_blocked_on_unacked_messages",
        "gauge",
        "1 while delivery is stopped by the limit of unacked messages",
        lambda subscription: float(subscription.dispatcher.blocked),
    ),
    Family(
        "vela_subscription_acked_messages_total",
        "counter",
        "messages acked by consumers",
        lambda subscription: subscription.counters.messages_acked,
    ),
    Family(
        "vela_subscription_redelivered_messages_total",
        "counter",
        "messages delivered again",
        lambda subscription: subscription.counters.messages_redelivered,
    ),
    Family(
        "vela_subscription_invalid_acks_total",
        "counter",
        "acks of message ids that are not stored",
        lambda subscription: subscription.counters.invalid_acks,
    ),
    Family(
        "pulsar_subscription_total_msg_expired",
        "counter",
        "messages acked because their time to live had passed",
        lambda subscription: subscription.counters.messages_expired,
    ),
    Family(
        "vela_subscription_ignored_acks_total",
        "counter",
        "cumulative acks that were ignored: malformed, or not allowed on the subscription's type",
        lambda subscription: subscription.counters.ignored_acks,
    ),
    SplitFamily(
        "vela_subscription_discarded_total",
        "counter",
        "acks with which consumers discarded messages, by the reason that they gave",
        "reason",
        lambda subscription: subscription.counters.validation_errors.items(),
    ),
    Family(
        "vela_subscription_option_warnings_total",
        "counter",
        "warnings about the options of consumers; the log has their texts",
        lambda subscription: sum(subscription.counters.option_warnings.values()),
    ),
    SplitFamily(
        "vela_subscription_not_sent_total",
        "counter",
        "messages that the broker acked instead of sending them, by reason",
        "reason",
        lambda subscription: [
            (reason.value, count) for reason, count in subscription.counters.discarded.items()
        ],
    ),
    Family(
        "vela_subscription_filter_errors_total",
        "counter",
        "entries on which an entry filter failed",
        lambda subscription: subscription.counters.filter_errors,
    ),
]

PASSING_SUBSCRIPTION: Final[
    list[Family[NonPersistentSubscription] | SplitFamily[NonPersistentSubscription]]
] = [
    Family(
        "vela_subscription_dropped_messages_total",
        "counter",
        "messages of a non-persistent topic that no consumer could take",
        lambda subscription: subscription.messages_dropped,
    ),
]

ANY_SUBSCRIPTION: Final[list[Family[AnySubscription] | SplitFamily[AnySubscription]]] = [
    Family(
        "pulsar_subscription_consumers_count",
        "gauge",
        "connected consumers",
        lambda subscription: len(subscription.consumers),
    ),
    Family(
        "vela_subscription_out_messages_total",
        "counter",
        "messages delivered, redeliveries included",
        lambda subscription: subscription.messages_out,
    ),
    Family(
        "vela_subscription_dispatch_throttled_total",
        "counter",
        "how often a dispatch rate limit made the subscription wait",
        lambda subscription: subscription.dispatch_limit.times if subscription.dispatch_limit else None,
    ),
]
