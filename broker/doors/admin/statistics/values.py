"""The statistics of a topic, with Pulsar's names. Rates are per second.

Counters of a topic or subscription start when the topic is loaded. Counters of a client start when the client connects.
The bytesOutCounter of a topic or subscription covers only connected consumers.
"""
# ruff: noqa: N815 - the names are Pulsar's

from __future__ import annotations

from pydantic import BaseModel

__all__ = [
    "CompactionStats",
    "ConsumerStats",
    "PartitionedTopicStats",
    "PublisherStats",
    "SubscriptionStats",
    "TopicStats",
]


class PublisherStats(BaseModel):
    """A connected producer."""

    accessMode: str
    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    averageMsgSize: float = 0.0
    chunkedMessageRate: float = 0.0
    producerId: int
    producerName: str
    address: str
    connectedSince: str
    clientVersion: str
    supportsPartialProducer: bool = True
    metadata: dict[str, str]
    msgDropRate: float | None = None  # Only for non-persistent topics


class DrainingHash(BaseModel):
    """A key hash whose former consumer still has pending entries. New entries of the hash wait."""

    hash: int
    unackMsgs: int  # Entries that are pending at the former consumer
    blockedAttempts: int  # Vela counts waiting entries here, but Pulsar counts attempts to send.


class ConsumerStats(BaseModel):
    """A connected consumer."""

    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    msgRateRedeliver: float = 0.0
    messageAckRate: float = 0.0
    chunkedMessageRate: float = 0.0
    bytesOutCounter: int = 0
    msgOutCounter: int = 0
    consumerName: str
    address: str
    connectedSince: str
    clientVersion: str
    availablePermits: int = 0
    unackedMessages: int = 0
    avgMessagesPerEntry: int = 0
    blockedConsumerOnUnackedMsgs: bool = False
    firstConsumedFlowTimestamp: int = 0
    firstMessagesSentTimestamp: int = 0
    lastAckedTimestamp: int = 0
    lastConsumedTimestamp: int = 0
    lastConsumedFlowTimestamp: int = 0
    lastAckedTime: str
    lastConsumedTime: str
    keyHashRangeArrays: list[tuple[int, int]] | None = None  # Only for Key_Shared
    drainingHashes: list[DrainingHash] | None = None  # Only for Key_Shared
    drainingHashesCount: int = 0
    drainingHashesClearedTotal: int = 0
    drainingHashesUnackedMessages: int = 0
    metadata: dict[str, str]


class SubscriptionStats(BaseModel):
    """A subscription. `msgBacklog` and `msgBacklogNoDelayed` count entries, as in Pulsar."""

    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    msgRateRedeliver: float = 0.0
    messageAckRate: float = 0.0
    chunkedMessageRate: float = 0.0
    msgRateExpired: float = 0.0
    msgDropRate: float | None = None  # Only for non-persistent topics
    bytesOutCounter: int = 0
    msgOutCounter: int = 0
    msgBacklog: int = 0
    backlogSize: int = 0
    msgBacklogNoDelayed: int = 0
    earliestMsgPublishTimeInBacklog: int = 0
    blockedSubscriptionOnUnackedMsgs: bool = False
    msgDelayed: int = 0
    msgInReplay: int = 0
    unackedMessages: int = 0
    type: str
    activeConsumerName: str | None = None
    msgExpired: int = 0
    totalMsgExpired: int = 0
    lastExpireTimestamp: int = 0
    lastConsumedFlowTimestamp: int = 0
    lastConsumedTimestamp: int = 0
    lastAckedTimestamp: int = 0
    lastMarkDeleteAdvancedTimestamp: int = 0
    consumers: list[ConsumerStats]
    isDurable: bool = True
    durable: bool = True
    isReplicated: bool = False
    replicated: bool = False
    allowOutOfOrderDelivery: bool = False
    keySharedMode: str | None = None
    consumersAfterMarkDeletePosition: dict[str, str] = {}
    drainingHashesCount: int = 0
    drainingHashesClearedTotal: int = 0
    drainingHashesUnackedMessages: int = 0
    nonContiguousDeletedMessagesRanges: int = 0
    nonContiguousDeletedMessagesRangesSerializedSize: int = 0
    delayedMessageIndexSizeInBytes: int = 0
    subscriptionProperties: dict[str, str] = {}
    filterProcessedMsgCount: int = 0
    filterAcceptedMsgCount: int = 0
    filterRejectedMsgCount: int = 0
    filterRescheduledMsgCount: int = 0
    dispatchThrottledMsgEventsBySubscriptionLimit: int = 0
    dispatchThrottledBytesEventsBySubscriptionLimit: int = 0
    dispatchThrottledMsgEventsByTopicLimit: int = 0
    dispatchThrottledBytesEventsByTopicLimit: int = 0
    dispatchThrottledMsgEventsByBrokerLimit: int = 0
    dispatchThrottledBytesEventsByBrokerLimit: int = 0


class CompactionStats(BaseModel):
    """The latest compaction of a topic."""

    lastCompactionRemovedEventCount: int = 0
    lastCompactionSucceedTimestamp: int = 0
    lastCompactionFailedTimestamp: int = 0
    lastCompactionDurationTimeInMills: int = 0


class TopicStats(BaseModel):
    """A topic, or all partitions of a topic."""

    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    msgDropRate: float | None = None  # Only for non-persistent topics
    bytesInCounter: int = 0
    msgInCounter: int = 0
    systemTopicBytesInCounter: int = 0
    bytesOutCounter: int = 0
    msgOutCounter: int = 0
    bytesOutInternalCounter: int = 0
    averageMsgSize: float = 0.0
    msgChunkPublished: bool = False
    storageSize: int = 0
    backlogSize: int = 0
    backlogQuotaLimitSize: int = -1
    backlogQuotaLimitTime: int = -1
    oldestBacklogMessageAgeSeconds: int = -1
    oldestBacklogMessageSubscriptionName: str | None = None
    earliestMsgPublishTimeInBacklogs: int = 0
    publishRateLimitedTimes: int = 0
    offloadedStorageSize: int = 0
    lastOffloadLedgerId: int = 0
    lastOffloadSuccessTimeStamp: int = 0
    lastOffloadFailureTimeStamp: int = 0
    ongoingTxnCount: int = 0
    abortedTxnCount: int = 0
    committedTxnCount: int = 0
    publishers: list[PublisherStats] = []
    waitingPublishers: int = 0
    subscriptions: dict[str, SubscriptionStats] = {}
    replication: dict[str, dict[str, float]] = {}
    deduplicationStatus: str = "Disabled"
    topicEpoch: int | None = None
    nonContiguousDeletedMessagesRanges: int = 0
    nonContiguousDeletedMessagesRangesSerializedSize: int = 0
    delayedMessageIndexSizeInBytes: int = 0
    compaction: CompactionStats = CompactionStats()
    ownerBroker: str = ""
    topicCreationTimeStamp: int = 0
    lastPublishTimeStamp: int = 0


class PartitionedMetadata(BaseModel):
    """The number of partitions of a topic."""

    partitions: int
    deleted: bool = False


class PartitionedTopicStats(TopicStats):
    """The merged statistics of all partitions, and the statistics of each partition."""

    metadata: PartitionedMetadata
    partitions: dict[str, TopicStats] = {}
