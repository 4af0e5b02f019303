"""/metrics in Prometheus' text format, under Pulsar's names where they exist; `vela_…` where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker.topics.non_persistent.subscription import NonPersistentSubscription
from broker.topics.topic import Topic

if TYPE_CHECKING:
    from broker.process.broker import Broker
    from broker.pulls.parked import Holds
    from broker.storage.log.lifetime import OldestPin
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.topic import NonPersistentTopic

__all__ = ["metrics_text"]

Sample = tuple[str, float]  # labels, value


def metrics_text(broker: Broker) -> str:
    """Every series of this process. Costs a few µs a topic and subscription; reads no database."""
    topics = list(broker.topics.values())
    subscriptions = [each for topic in topics for each in topic.subscriptions.values()]
    passing = broker.non_persistent.all()
    services = broker.services
    lines: list[str] = []
    _topic_series(lines, topics, passing)
    _subscription_series(lines, subscriptions)
    _flow_series(lines, [*topics, *passing])
    _quota_series(lines, topics)
    _series(
        lines, "vela_broker_ready", "gauge", "1 while clients are served", [("", float(broker.is_ready()[0]))]
    )
    _series(
        lines, "vela_writer_commits_total", "counter", "append statements", [("", services.writer.commits)]
    )
    _series(
        lines,
        "vela_writer_unknown_outcomes_total",
        "counter",
        "commits whose connection died and whose outcome was looked up",
        [("", services.writer.unknown_outcomes)],
    )
    lifetime = broker.lifetime
    stragglers = lifetime.stragglers
    _series(
        lines, "vela_trimmed_bytes_total", "counter", "of ledgers trimmed", [("", lifetime.trimmed_bytes)]
    )
    _series(lines, "vela_segments_count", "gauge", "tables of entries", [("", stragglers.segments)])
    _series(
        lines,
        "vela_segments_dropped_total",
        "counter",
        "tables of entries dropped",
        [("", stragglers.dropped)],
    )
    _series(
        lines,
        "vela_segments_copied_entries_total",
        "counter",
        "entries copied out of segments that were mostly dead",
        [("", stragglers.copied_entries)],
    )
    _series(
        lines,
        "vela_oldest_segment_opened_seconds",
        "gauge",
        "when the oldest segment that a cursor keeps was opened, Unix time; labelled with that cursor",
        [(_pin_labels(lifetime.pin), lifetime.pin.opened_ms / 1000)] if lifetime.pin else [],
    )
    _series(
        lines, "vela_cache_bytes", "gauge", "entry data held in memory", [("", services.cache.size_bytes)]
    )
    _hold_series(lines, services.holds)
    _series(
        lines,
        "vela_refused_requests_total",
        "counter",
        "requests of binary clients that were refused, by kind",
        [(f'{{request="{request}"}}', float(count)) for request, count in broker.refused_requests.items()],
    )
    for name, text, value in (
        ("vela_outbox_moved_total", "messages moved from the outbox into their topics", broker.outbox.moved),
        (
            "vela_outbox_refused_total",
            "times that a topic did not take a message of the outbox",
            broker.outbox.refused,
        ),
    ):
        _series(lines, name, "counter", text, [("", value)])
    return "\n".join(lines) + "\n"


def _hold_series(lines: list[str], holds: Holds) -> None:
    _series(lines, "vela_pulls_held", "gauge", "long-poll requests waiting for a message", [("", len(holds))])
    _series(
        lines,
        "vela_pulls_held_total",
        "counter",
        "long-poll requests that were held",
        [("", holds.held_total)],
    )
    _series(
        lines,
        "vela_pull_wake_ups_total",
        "counter",
        "held requests answered because a message arrived",
        [("", holds.wake_ups)],
    )
    _series(
        lines,
        "vela_pull_answers_total",
        "counter",
        "long-poll answers by outcome",
        [(f'{{outcome="{status.value}"}}', float(count)) for status, count in holds.answers.items()],
    )


def _topic_series(lines: list[str], topics: list[Topic], passing: list[NonPersistentTopic]) -> None:
    def by_topic(value: Mapping[Any, float]) -> list[Sample]:
        return [(_topic_labels(topic), number) for topic, number in value.items()]

    everything: list[Topic | NonPersistentTopic] = [*topics, *passing]

    for name, kind, text, values in (
        (
            "pulsar_subscriptions_count",
            "gauge",
            "subscriptions, readers included",
            {t: len(t.subscriptions) for t in everything},
        ),
        ("pulsar_producers_count", "gauge", "connected producers", {t: len(t.producers) for t in everything}),
        (
            "pulsar_consumers_count",
            "gauge",
            "connected consumers",
            {t: sum(len(s.consumers) for s in t.subscriptions.values()) for t in everything},
        ),
        (
            "pulsar_in_messages_total",
            "counter",
            "messages stored since the topic began; of a non-persistent one, received",
            {t: t.log.ledgers.total_messages for t in topics} | {t: t.messages_in for t in passing},
        ),
        (
            "pulsar_in_bytes_total",
            "counter",
            "bytes stored since the topic began; of a non-persistent one, received",
            {t: t.log.ledgers.total_bytes for t in topics} | {t: t.bytes_in for t in passing},
        ),
        (
            "vela_topic_delayed_entries",
            "gauge",
            "entries that are not due",
            {t: len(t.delayed) for t in topics},
        ),
        (
            "pulsar_storage_size",
            "gauge",
            "bytes of the ledgers kept",
            {t: sum(info.size_bytes for info in t.log.ledgers.infos()) for t in topics},
        ),
    ):
        _series(lines, name, kind, text, by_topic({topic: float(value) for topic, value in values.items()}))
    _series(lines, "pulsar_broker_topics_count", "gauge", "topics in memory", [("", len(topics))])


def _subscription_series(lines: list[str], subscriptions: list[Subscription]) -> None:
    def labelled(values: Iterable[float]) -> list[Sample]:
        return [(_subscription_labels(s), value) for s, value in zip(subscriptions, values, strict=True)]

    _series(
        lines,
        "pulsar_subscription_back_log",
        "gauge",
        "entries not acked",
        labelled(s.cursor.backlog_entries for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_backlog_messages",
        "gauge",
        "messages not acked",
        labelled(s.cursor.backlog_messages for s in subscriptions),
    )
    _series(
        lines,
        "pulsar_subscription_unacked_messages",
        "gauge",
        "messages delivered and not acked",
        labelled(s.dispatcher.unacked_messages for s in subscriptions),
    )
    _series(
        lines,
        "pulsar_subscription_blocked_on_unacked_messages",
        "gauge",
        "1 while the subscription's limit stops it",
        labelled(float(s.dispatcher.blocked) for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_acked_messages_total",
        "counter",
        "messages acked by consumers",
        labelled(s.messages_acked for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_invalid_acks_total",
        "counter",
        "acks of ids that are not stored",
        labelled(s.invalid_acks for s in subscriptions),
    )
    _series(
        lines,
        "pulsar_subscription_total_msg_expired",
        "counter",
        "messages acked because their time to live had passed",
        labelled(s.messages_expired for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_ignored_acks_total",
        "counter",
        "cumulative acks where the subscription's type has none",
        labelled(s.ignored_acks for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_discarded_total",
        "counter",
        "messages thrown away by consumers as broken, by the reason they gave",
        [
            (f'{_subscription_labels(s)[:-1]},reason="{reason}"}}', float(count))
            for s in subscriptions
            for reason, count in s.validation_errors.items()
        ],
    )
    _series(
        lines,
        "vela_subscription_option_warnings_total",
        "counter",
        "consumers that asked for what cannot happen; the log says what",
        labelled(sum(s.option_warnings.values()) for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_not_sent_total",
        "counter",
        "messages the broker acked instead of sending them, by reason",
        [
            (f'{_subscription_labels(s)[:-1]},reason="{reason.value}"}}', count)
            for s in subscriptions
            for reason, count in s.filter.discarded.items()
        ],
    )
    _series(
        lines,
        "vela_subscription_filter_errors_total",
        "counter",
        "entries on which an entry filter failed",
        labelled(s.filter.filter_errors for s in subscriptions),
    )


def _quota_series(lines: list[str], topics: list[Topic]) -> None:
    _series(
        lines,
        "pulsar_storage_backlog_quota_limit",
        "gauge",
        "bytes, -1 = none",
        [(_topic_labels(topic), topic.policies.backlog_quota_bytes) for topic in topics],
    )
    _series(
        lines,
        "pulsar_storage_backlog_quota_limit_time",
        "gauge",
        "seconds, -1 = none",
        [
            (
                _topic_labels(topic),
                -1 if (limit_ms := topic.policies.backlog_quota_ms) < 0 else limit_ms / 1000,
            )
            for topic in topics
        ],
    )
    _series(
        lines,
        "vela_backlog_quota_exceeded",
        "gauge",
        "1 while this subscription's backlog keeps producers out",
        [
            (_labels_of(topic, "subscription", topic.quota.breach.subscription), 1)
            for topic in topics
            if topic.quota.breach is not None
        ],
    )
    _series(
        lines,
        "pulsar_storage_backlog_quota_exceeded_evictions_total",
        "counter",
        "times that the slowest subscription gave up messages",
        [
            (_labels_of(topic, "quota_type", kind), count)
            for topic in topics
            for kind, count in topic.quota.evictions.items()
            if topic.quota.is_set
        ],
    )


def _labels_of(topic: Topic | NonPersistentTopic, name: str, value: str) -> str:
    return f'{_topic_labels(topic)[:-1]},{name}="{_escaped(value)}"}}'


def _flow_series(lines: list[str], topics: list[Topic | NonPersistentTopic]) -> None:
    """What topics of both kinds have: who is there, what went out, what was held back or left out."""
    stored = [each for each in topics if isinstance(each, Topic)]
    subscriptions = [each for topic in topics for each in topic.subscriptions.values()]

    def labelled(values: Iterable[float]) -> list[Sample]:
        return [(_subscription_labels(s), value) for s, value in zip(subscriptions, values, strict=True)]

    _series(
        lines,
        "vela_duplicate_sends_total",
        "counter",
        "sends that repeated what is stored",
        [(_topic_labels(t), t.deduplication.duplicates) for t in stored if t.deduplication is not None],
    )
    _series(
        lines,
        "pulsar_publish_rate_limit_times",
        "counter",
        "times that the publish rate stopped a producer",
        [(_topic_labels(t), t.publish_limit.times) for t in topics if t.publish_limit is not None],
    )
    _series(
        lines,
        "pulsar_subscription_consumers_count",
        "gauge",
        "connected consumers",
        labelled(len(s.consumers) for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_out_messages_total",
        "counter",
        "messages delivered, redelivered ones too",
        labelled(s.messages_out for s in subscriptions),
    )
    _series(
        lines,
        "vela_subscription_dispatch_throttled_total",
        "counter",
        "times that a dispatch rate made the subscription wait",
        [(_subscription_labels(s), s.dispatch_limit.times) for s in subscriptions if s.dispatch_limit],
    )
    _series(
        lines,
        "vela_subscription_dropped_messages_total",
        "counter",
        "messages of a non-persistent topic that nobody took",
        [
            (_subscription_labels(s), s.messages_dropped)
            for s in subscriptions
            if isinstance(s, NonPersistentSubscription)
        ],
    )


def _series(lines: list[str], name: str, kind: str, text: str, samples: Iterable[Sample]) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")
    lines.extend(f"{name}{labels} {value:.17g}" for labels, value in samples)


def _topic_labels(topic: Topic | NonPersistentTopic) -> str:
    namespace, name = _escaped(topic.name.namespace_name), _escaped(topic.name.full)
    return f'{{cluster="vela",namespace="{namespace}",topic="{name}"}}'


def _pin_labels(pin: OldestPin) -> str:
    return f'{{topic="{_escaped(pin.topic_name)}",subscription="{_escaped(pin.subscription)}"}}'


def _subscription_labels(subscription: Subscription | NonPersistentSubscription) -> str:
    return _labels_of(subscription.topic, "subscription", subscription.name)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
