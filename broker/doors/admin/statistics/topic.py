"""The statistics of one topic or partition, from memory and PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.core.dispatchers.key_shared import KeySharedDispatcher
from broker.core.subscription.types import SubscriptionType
from broker.doors.admin.catalogue import Catalogue
from broker.doors.admin.policies.table import rounded_up
from broker.doors.admin.statistics.clients import consumer_stats, key_ranges, publisher_stats
from broker.doors.admin.statistics.values import CompactionStats, SubscriptionStats, TopicStats
from broker.storage.pool import repeat_until_done
from broker.storage.topics import catalogue as store
from broker.subscription.machine.state import Discard

if TYPE_CHECKING:
    from broker.core.dispatchers.base import DispatchConsumer
    from broker.core.dispatchers.key_shared import DrainingSlot
    from broker.doors.ports import AdminPort
    from broker.subscription.subscription import Subscription
    from broker.topics.non_persistent.subscription import NonPersistentSubscription
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.rates import Rates
    from broker.topics.topic import Topic

__all__ = ["Asked", "non_persistent_stats", "topic_stats"]

_RUNS_COUNTED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which optional parts of the statistics to compute."""

    backlog_size: bool = True
    earliest_time: bool = False
    publishers: bool = True
    consumers: bool = True


async def topic_stats(broker: AdminPort, topic: Topic, asked: Asked, *, created_ms: int) -> TopicStats:
    """Return the statistics of a loaded topic. `created_ms` is 0 if the creation time is unknown.

    Raises psycopg.Error. May raise PersistenceFailed if `asked.earliest_time` is True.
    """
    pool, topic_id = broker.pool, topic.topic_id
    properties = await repeat_until_done(
        pool, lambda c: store.subscription_properties(c, topic_id), what="reading properties"
    )
    compaction = await Catalogue(broker).last_compaction(topic_id)
    offload = await repeat_until_done(
        pool, lambda c: store.last_offload(c, topic_id), what="reading offloads"
    )
    subscriptions = {
        each.name: _subscription_stats(each, broker.rates, asked, properties.get(each.name, {}))
        for each in list(topic.subscriptions.values())
    }
    slowest, earliest_ms = "", 0
    if asked.earliest_time:
        for name, found in subscriptions.items():
            found.earliestMsgPublishTimeInBacklog = await _earliest_ms(topic, name)
        times = {
            name: each.earliestMsgPublishTimeInBacklog
            for name, each in subscriptions.items()
            if each.earliestMsgPublishTimeInBacklog
        }
        slowest = min(times, key=lambda name: times[name], default="")
        earliest_ms = times.get(slowest, 0)
    ledgers, policies = topic.log.ledgers, topic.policies
    message_rate, byte_rate = broker.rates.in_per_s(topic)
    return TopicStats(
        msgRateIn=message_rate,
        msgThroughputIn=byte_rate,
        msgRateOut=sum(each.msgRateOut for each in subscriptions.values()),
        msgThroughputOut=sum(each.msgThroughputOut for each in subscriptions.values()),
        bytesInCounter=ledgers.total_bytes - topic.loaded_bytes,
        msgInCounter=ledgers.total_messages - topic.loaded_messages,
        bytesOutCounter=sum(each.bytesOutCounter for each in subscriptions.values()),
        msgOutCounter=sum(each.msgOutCounter for each in subscriptions.values()),
        averageMsgSize=byte_rate / message_rate if message_rate else 0.0,
        storageSize=sum(each.size_bytes for each in ledgers),
        backlogSize=max(
            (each.cursor.backlog_bytes for each in topic.subscriptions.values() if each.is_durable), default=0
        ),
        backlogQuotaLimitSize=policies.backlog_quota_bytes,
        backlogQuotaLimitTime=rounded_up(policies.backlog_quota_ms, 1000),
        oldestBacklogMessageAgeSeconds=(
            max(0, broker.clock.now_ms() - earliest_ms) // 1000 if earliest_ms else -1
        ),
        oldestBacklogMessageSubscriptionName=slowest or None,
        earliestMsgPublishTimeInBacklogs=earliest_ms,
        publishRateLimitedTimes=0 if topic.publish_limit is None else topic.publish_limit.times,
        offloadedStorageSize=topic.log.offloaded_bytes,
        lastOffloadLedgerId=max(topic.log.files, default=0),
        lastOffloadSuccessTimeStamp=offload.succeeded_ms,
        lastOffloadFailureTimeStamp=offload.failed_ms,
        publishers=(
            [publisher_stats(each, broker.rates) for each in topic.producers.values()]
            if asked.publishers
            else []
        ),
        waitingPublishers=topic.access.waiting,
        subscriptions=subscriptions,
        deduplicationStatus=_deduplication(topic),
        topicEpoch=topic.access.topic_epoch,
        nonContiguousDeletedMessagesRanges=sum(
            each.nonContiguousDeletedMessagesRanges for each in subscriptions.values()
        ),
        compaction=_compaction(compaction),
        ownerBroker=broker.settings.advertised_http_url.partition("://")[2],
        topicCreationTimeStamp=created_ms,
        lastPublishTimeStamp=topic.last_append_ms
        or max((each.last_append_ms for each in ledgers), default=0),
    )


def _subscription_stats(
    each: Subscription, rates: Rates, asked: Asked, properties: Mapping[str, str]
) -> SubscriptionStats:
    rate_out, rate_acked = rates.out_per_s(each)
    consumers = list(each.consumers.values())
    messages_out = sum(consumer.messages_out for consumer in consumers)
    bytes_out = sum(consumer.bytes_out for consumer in consumers)
    counts_unacked = not each.type.single_active
    counters, dispatcher, cursor = each.counters, each.dispatcher, each.cursor
    active = dispatcher.active
    ranges = key_ranges(dispatcher)
    draining = dispatcher.draining() if isinstance(dispatcher, KeySharedDispatcher) else []
    draining_at: dict[DispatchConsumer, list[DrainingSlot]] = {}
    for slot in draining:
        draining_at.setdefault(slot.pending_at, []).append(slot)
    rejected, rescheduled = counters.discarded[Discard.FILTER], counters.reschedules
    sticky = any(consumer.request.key_shared.sticky for consumer in consumers)
    return SubscriptionStats(
        msgRateOut=rate_out,
        msgThroughputOut=rate_out * bytes_out / messages_out if messages_out else 0.0,
        msgRateRedeliver=sum(rates.consumer_per_s(consumer)[2] for consumer in consumers),
        messageAckRate=rate_acked,
        bytesOutCounter=bytes_out,
        msgOutCounter=counters.messages_out,
        msgBacklog=cursor.backlog_entries,
        backlogSize=cursor.backlog_bytes if asked.backlog_size else -1,
        msgBacklogNoDelayed=max(0, cursor.backlog_entries - each.delayed_entries),
        blockedSubscriptionOnUnackedMsgs=dispatcher.blocked,
        msgDelayed=each.delayed_entries,
        msgInReplay=dispatcher.replay_entries,
        unackedMessages=dispatcher.unacked_messages if counts_unacked else 0,
        type=each.type.value,
        activeConsumerName=None if active is None else active.name,
        msgExpired=counters.messages_expired,
        totalMsgExpired=counters.messages_expired,
        lastConsumedFlowTimestamp=max((consumer.last_flow_ms for consumer in consumers), default=0),
        lastConsumedTimestamp=max((consumer.last_delivery_ms for consumer in consumers), default=0),
        lastAckedTimestamp=max((consumer.last_ack_ms for consumer in consumers), default=0),
        lastMarkDeleteAdvancedTimestamp=each.advanced_ms,
        consumers=(
            [
                consumer_stats(
                    consumer,
                    rates,
                    ranges=ranges.get(consumer.dispatch),
                    draining=draining_at.get(consumer.dispatch, ()),
                )
                for consumer in consumers
            ]
            if asked.consumers
            else []
        ),
        isDurable=each.is_durable,
        durable=each.is_durable,
        allowOutOfOrderDelivery=any(consumer.request.key_shared.allow_out_of_order for consumer in consumers),
        keySharedMode=(
            None if each.type is not SubscriptionType.KEY_SHARED else "STICKY" if sticky else "AUTO_SPLIT"
        ),
        drainingHashesCount=len(draining),
        drainingHashesUnackedMessages=sum(slot.pending_entries for slot in draining),
        nonContiguousDeletedMessagesRanges=sum(
            1 for _ in islice(cursor.individually_acked(_RUNS_COUNTED), _RUNS_COUNTED)
        ),
        subscriptionProperties=dict(properties),
        filterProcessedMsgCount=rejected + rescheduled,
        filterRejectedMsgCount=rejected,
        filterRescheduledMsgCount=rescheduled,
        dispatchThrottledMsgEventsBySubscriptionLimit=0
        if each.dispatch_limit is None
        else each.dispatch_limit.times,
    )


def non_persistent_stats(broker: AdminPort, topic: NonPersistentTopic, asked: Asked) -> TopicStats:
    """Return the statistics of a non-persistent topic that is in use."""
    subscriptions = {
        each.name: _passing_stats(each, broker.rates, asked) for each in list(topic.subscriptions.values())
    }
    publishers = [publisher_stats(each, broker.rates) for each in topic.producers.values()]
    for publisher in publishers:
        publisher.msgDropRate = 0.0
    return TopicStats(
        msgDropRate=0.0,
        bytesInCounter=topic.bytes_in,
        msgInCounter=topic.messages_in,
        bytesOutCounter=sum(each.bytesOutCounter for each in subscriptions.values()),
        msgOutCounter=sum(each.msgOutCounter for each in subscriptions.values()),
        publishers=publishers if asked.publishers else [],
        subscriptions=subscriptions,
        ownerBroker=broker.settings.advertised_http_url.partition("://")[2],
    )


def _passing_stats(each: NonPersistentSubscription, rates: Rates, asked: Asked) -> SubscriptionStats:
    consumers = list(each.consumers.values())
    return SubscriptionStats(
        msgDropRate=0.0,
        bytesOutCounter=sum(consumer.bytes_out for consumer in consumers),
        msgOutCounter=each.messages_out,
        type=each.type.value,
        consumers=([consumer_stats(consumer, rates) for consumer in consumers] if asked.consumers else []),
        isDurable=False,
        durable=False,
    )


async def _earliest_ms(topic: Topic, subscription: str) -> int:
    found = topic.subscriptions.get(subscription)
    if found is None or not found.cursor.backlog_entries:
        return 0
    return await topic.reader.append_ms(found.cursor.read_from()) or 0


def _deduplication(topic: Topic) -> str:
    if topic.deduplication is None:
        return "Disabled"
    return "Enabled" if topic.deduplication.is_enabled else "Removing"


def _compaction(last: store.LastCompaction | None) -> CompactionStats:
    if last is None:
        return CompactionStats()
    return CompactionStats(
        lastCompactionRemovedEventCount=last.removed_messages,
        lastCompactionSucceedTimestamp=last.succeeded_ms,
        lastCompactionFailedTimestamp=last.failed_ms,
        lastCompactionDurationTimeInMills=last.duration_ms,
    )
