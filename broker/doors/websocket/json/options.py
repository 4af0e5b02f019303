"""The options of a socket, read from its query string. Unknown parameters are ignored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from broker.doors.handshake_errors import HandshakeRefused, InvalidQuery
from broker.doors.query import Query
from broker.doors.websocket.json.batch_acks import MAX_BATCH_SIZE
from broker.doors.websocket.json.encryption import EncryptionKey, encryption_keys
from vela.wire.errors import InvalidMessageId
from vela.wire.letters import DEFAULT_MAX_REDELIVERIES, DeadLetterPolicy, DeadLetterRule, RetryPolicy
from vela.wire.message_id import EARLIEST, LATEST, MessageId
from vela.wire.redelivery_backoff import RedeliveryBackoff

__all__ = [
    "CompressionType",
    "ConsumerOptions",
    "CryptoFailureAction",
    "HashingScheme",
    "InitialPosition",
    "ProducerOptions",
    "ReaderOptions",
    "RoutingMode",
    "SubscriptionMode",
    "SubscriptionType",
    "consumer_options",
    "producer_options",
    "reader_options",
]

MAX_RECEIVER_QUEUE = 1000  # Larger numbers are lowered to this limit
MIN_ACK_TIMEOUT_MS = 1000
MIN_TICK_MS = 100
MIN_NEGATIVE_ACK_DELAY_MS = 100  # Shorter delays are raised to this minimum, as in Pulsar

_BACKOFF = re.compile(r"([0-9]{1,9}),([0-9]{1,9})(?:,([0-9]{1,3}(?:\.[0-9]{1,3})?))?", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)
_INT32 = 31
_INT64 = 63


class HashingScheme(StrEnum):
    """The hash that maps a key to a partition."""

    JAVA_STRING_HASH = "JavaStringHash"
    MURMUR3_32 = "Murmur3_32Hash"


class RoutingMode(StrEnum):
    """How the broker chooses a partition for a message without a key. CustomPartition works like SinglePartition."""

    SINGLE = "SinglePartition"
    ROUND_ROBIN = "RoundRobinPartition"
    CUSTOM = "CustomPartition"


class CompressionType(StrEnum):
    """How the broker compresses a stored entry."""

    NONE = "NONE"
    LZ4 = "LZ4"
    ZLIB = "ZLIB"
    ZSTD = "ZSTD"
    SNAPPY = "SNAPPY"


class SubscriptionType(StrEnum):
    """How consumers share a subscription."""

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


class SubscriptionMode(StrEnum):
    """Whether the cursor outlives its consumers."""

    DURABLE = "Durable"
    NON_DURABLE = "NonDurable"


class InitialPosition(StrEnum):
    """Where a new subscription begins."""

    LATEST = "Latest"
    EARLIEST = "Earliest"


class CryptoFailureAction(StrEnum):
    """What happens to an encrypted message.

    FAIL leaves the message unacked. DISCARD acks the message. CONSUME pushes the encrypted payload.
    """

    FAIL = "FAIL"
    DISCARD = "DISCARD"
    CONSUME = "CONSUME"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Options of a producer."""

    producer_name: str | None = None
    initial_sequence_id: int | None = None  # The first message gets this id plus one
    hashing_scheme: HashingScheme = HashingScheme.JAVA_STRING_HASH
    send_timeout_ms: int = 30_000  # 0 means no timeout
    routing_mode: RoutingMode = RoutingMode.SINGLE
    batching_enabled: bool = False
    batching_max_messages: int = 1000
    batching_max_publish_delay_ms: int = 1
    max_pending_messages: int = 0  # 0 means unlimited
    compression: CompressionType = CompressionType.NONE
    encryption_keys: tuple[EncryptionKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Options of a consumer."""

    subscription_type: SubscriptionType = SubscriptionType.EXCLUSIVE
    subscription_mode: SubscriptionMode = SubscriptionMode.DURABLE
    initial_position: InitialPosition = InitialPosition.LATEST
    receiver_queue_size: int = MAX_RECEIVER_QUEUE
    consumer_name: str | None = None
    priority_level: int = 0  # Level 0 is the highest priority
    ack_timeout_ms: int = 0  # 0 means off
    ack_timeout_tick_ms: int = MIN_TICK_MS  # Timeouts are rounded up to multiples of the tick
    ack_timeout_backoff: RedeliveryBackoff | None = None
    negative_ack_redelivery_delay_ms: int = 60_000
    negative_ack_backoff: RedeliveryBackoff | None = None  # Replaces `negative_ack_redelivery_delay_ms`
    batch_index_acks: bool = True
    dead_letter: DeadLetterPolicy | None = None
    retry: RetryPolicy | None = None
    pull_mode: bool = False
    crypto_failure_action: CryptoFailureAction = CryptoFailureAction.FAIL

    @property
    def window(self) -> int:
        """The number of pushed messages that may wait for an answer, at least 1."""
        return max(1, self.receiver_queue_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """Options of a reader."""

    start: MessageId = LATEST  # Reading begins after this message
    receiver_queue_size: int = MAX_RECEIVER_QUEUE
    reader_name: str | None = None
    crypto_failure_action: CryptoFailureAction = CryptoFailureAction.FAIL

    @property
    def window(self) -> int:
        """The number of pushed messages that may wait to be processed, at least 1."""
        return max(1, self.receiver_queue_size)


def producer_options(query: Query) -> ProducerOptions:
    """Read the options of a producer. If encryptionKeys is set, batching and compression are off.

    Without batching, the batch limits and maxPendingMessages are ignored. Raises HandshakeRefused if encryptionKeys has
    no valid keys, and InvalidQuery if another option is invalid.
    """
    keys = encryption_keys(query)
    defaults = ProducerOptions()
    batching = _flag(query, "batchingEnabled") and not keys
    numbers = query if batching else {}
    return ProducerOptions(
        producer_name=query.get("producerName") or None,
        initial_sequence_id=_initial_sequence_id(query),
        hashing_scheme=_choice(query, "hashingScheme", defaults.hashing_scheme),
        send_timeout_ms=_number(query, "sendTimeoutMillis", defaults.send_timeout_ms),
        routing_mode=_choice(query, "messageRoutingMode", defaults.routing_mode),
        batching_enabled=batching,
        batching_max_messages=_number(
            numbers, "batchingMaxMessages", defaults.batching_max_messages, minimum=1
        ),
        batching_max_publish_delay_ms=_number(
            numbers, "batchingMaxPublishDelay", defaults.batching_max_publish_delay_ms, minimum=1
        ),
        max_pending_messages=_number(numbers, "maxPendingMessages", defaults.max_pending_messages),
        compression=defaults.compression if keys else _choice(query, "compressionType", defaults.compression),
        encryption_keys=keys,
    )


def consumer_options(query: Query) -> ConsumerOptions:
    """Read the options of a consumer. Raises InvalidQuery."""
    defaults = ConsumerOptions()
    name = query.get("consumerName")
    if name is not None and not name.strip():
        raise InvalidQuery("consumerName is blank; leave it out to get a generated one")
    ack_timeout_ms = _number(query, "ackTimeoutMillis", defaults.ack_timeout_ms)
    if 0 < ack_timeout_ms < MIN_ACK_TIMEOUT_MS:
        raise InvalidQuery(f"ackTimeoutMillis is 0 (off) or at least {MIN_ACK_TIMEOUT_MS}")
    retry = _retry(query)
    return ConsumerOptions(
        subscription_type=_choice(query, "subscriptionType", defaults.subscription_type),
        subscription_mode=_choice(query, "subscriptionMode", defaults.subscription_mode),
        initial_position=_choice(query, "subscriptionInitialPosition", defaults.initial_position),
        receiver_queue_size=_receiver_queue_size(query),
        consumer_name=name,
        priority_level=_number(query, "priorityLevel", defaults.priority_level),
        ack_timeout_ms=ack_timeout_ms,
        ack_timeout_tick_ms=_tick_ms(query, ack_timeout_ms),
        ack_timeout_backoff=_backoff(query, "ackTimeoutRedeliveryBackoff"),
        negative_ack_redelivery_delay_ms=max(
            MIN_NEGATIVE_ACK_DELAY_MS,
            _number(query, "negativeAckRedeliveryDelay", defaults.negative_ack_redelivery_delay_ms),
        ),
        negative_ack_backoff=_backoff(query, "negativeAckRedeliveryBackoff"),
        batch_index_acks=_flag(query, "batchIndexAck", default=True),
        dead_letter=_dead_letter(query, retry),
        retry=retry,
        pull_mode=_flag(query, "pullMode"),
        crypto_failure_action=_choice(query, "cryptoFailureAction", CryptoFailureAction.FAIL),
    )


def reader_options(query: Query) -> ReaderOptions:
    """Read the options of a reader. Raises HandshakeRefused with status 500 if an option is wrong, as in Pulsar."""
    try:
        return ReaderOptions(
            start=_start(query),
            receiver_queue_size=_receiver_queue_size(query),
            reader_name=query.get("readerName") or None,
            crypto_failure_action=_choice(query, "cryptoFailureAction", CryptoFailureAction.FAIL),
        )
    except InvalidQuery as error:
        raise HandshakeRefused(500, f"Failed to create reader: {error.detail}") from None


_Choice = TypeVar("_Choice", bound=StrEnum)


def _choice(query: Query, name: str, default: _Choice) -> _Choice:
    text = query.get(name)
    if text is None:
        return default
    try:
        return type(default)(text)
    except ValueError:
        raise InvalidQuery(f"{name} is one of {', '.join(type(default))}") from None


def _number(query: Query, name: str, default: int, *, minimum: int = 0) -> int:
    return default if name not in query else _integer(query, name, minimum, _INT32)


def _integer(query: Query, name: str, minimum: int, bits: int) -> int:
    text = query[name]
    if not _INTEGER.fullmatch(text):
        raise InvalidQuery(f"{name} is not a whole number")
    value = int(text)
    if value < minimum:
        raise InvalidQuery(f"{name} is at least {minimum}")
    if value >= 1 << bits:
        raise InvalidQuery(f"{name} is less than {1 << bits}")
    return value


def _initial_sequence_id(query: Query) -> int | None:
    if "initialSequenceId" not in query:
        return None
    value = _integer(query, "initialSequenceId", -1, _INT64)
    return None if value == -1 else value


def _receiver_queue_size(query: Query) -> int:
    return min(MAX_RECEIVER_QUEUE, _number(query, "receiverQueueSize", MAX_RECEIVER_QUEUE))


def _dead_letter(query: Query, retry: RetryPolicy | None) -> DeadLetterPolicy | None:
    if "maxRedeliverCount" in query:
        count = _number(query, "maxRedeliverCount", 0, minimum=1)
    elif retry is not None:
        count = DEFAULT_MAX_REDELIVERIES
    else:
        for name in ("deadLetterTopic", "deadLetterInitialSubscription", "deadLetterRule"):
            if name in query:
                raise InvalidQuery(f"{name} needs maxRedeliverCount, which is at least 1")
        return None
    return DeadLetterPolicy(
        max_redeliver_count=count,
        topic=query.get("deadLetterTopic", "").strip() or None,
        initial_subscription=query.get("deadLetterInitialSubscription", "").strip() or None,
        rule=_choice(query, "deadLetterRule", DeadLetterRule.JAVA),
    )


def _retry(query: Query) -> RetryPolicy | None:
    if _flag(query, "retryEnable"):
        return RetryPolicy(
            topic=query.get("retryLetterTopic", "").strip() or None,
            on_ack_timeout=_flag(query, "retryOnAckTimeout"),
        )
    for name in ("retryLetterTopic", "retryOnAckTimeout"):
        if name in query:
            raise InvalidQuery(f"{name} needs retryEnable=true")
    return None


def _flag(query: Query, name: str, *, default: bool = False) -> bool:
    if name not in query:
        return default
    text = query[name].lower()
    if text not in ("true", "false"):
        raise InvalidQuery(f"{name} is true or false")
    return text == "true"


def _tick_ms(query: Query, ack_timeout_ms: int) -> int:
    tick_ms = _number(query, "ackTimeoutTickMillis", MIN_TICK_MS, minimum=MIN_TICK_MS)
    return min(tick_ms, ack_timeout_ms) if ack_timeout_ms else tick_ms


def _backoff(query: Query, name: str) -> RedeliveryBackoff | None:
    if name not in query:
        return None
    match = _BACKOFF.fullmatch(query[name])
    if match is not None:
        try:
            return RedeliveryBackoff(
                min_ms=int(match[1]), max_ms=int(match[2]), multiplier=float(match[3] or 2)
            )
        except ValueError:
            pass
    raise InvalidQuery(
        f"{name} is the shortest and the longest wait in ms and a multiplier of at least 1, such as 1000,60000,2"
    )


def _start(query: Query) -> MessageId:
    text = query.get("messageId", "").strip()
    match text:
        case "" | "latest":
            return LATEST
        case "earliest":
            return EARLIEST
    try:
        found = MessageId.from_base64(text)
    except InvalidMessageId as error:
        raise InvalidQuery(
            f"messageId is earliest, latest or a base64 message id with +, / and = percent-encoded: {error}"
        ) from None
    if max(found.batch_index, found.batch_size) > MAX_BATCH_SIZE:
        raise InvalidQuery(
            f"messageId names message {found.batch_index} of a batch of {found.batch_size}; send it back as it came"
        )
    return found
