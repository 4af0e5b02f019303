"""Options of clients, producers and consumers.

Names, members and numbers are those of Apache's Python client. Where the protocol has numbers for an option, they are
the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from vela.named_numbers import NamedNumber
from vela.wire.letters import DeadLetterRule

__all__ = [
    "BatchingType",
    "CompressionType",
    "ConsumerBatchReceivePolicy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerType",
    "HashingScheme",
    "InitialPosition",
    "KeySharedMode",
    "PartitionsRoutingMode",
    "ProducerAccessMode",
    "RegexSubscriptionMode",
]

KEY_HASHES = 1 << 16  # key hashes of a Key_Shared subscription are from 0 to 65,535


class ConsumerType(NamedNumber):
    """How the consumers of one subscription share its messages."""

    Exclusive = 0  # one consumer, in order
    Shared = 1  # any number of consumers; each message goes to one of them
    Failover = 2  # one active consumer, in order; another takes over
    KeyShared = 3  # any number of consumers; messages with the same key go to the same consumer, in order


class InitialPosition(NamedNumber):
    """Where a new subscription begins."""

    Latest = 0  # after the newest message
    Earliest = 1  # with the oldest message that the topic keeps


class CompressionType(NamedNumber):
    """How a producer compresses payloads."""

    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


class BatchingType(NamedNumber):
    """Which messages go into one batch."""

    Default = 0  # messages sent one after the other
    KeyBased = 1  # messages with the same key, as Key_Shared subscriptions require


class PartitionsRoutingMode(NamedNumber):
    """Which partition a message without a key goes to."""

    UseSinglePartition = 0  # one partition, chosen at random
    RoundRobinDistribution = 1  # all partitions in turn
    CustomPartition = 2  # the partition that `message_router` returns, for messages with a key too


class HashingScheme(NamedNumber):
    """The hash that maps a key to a partition. Names and numbers are those of Apache's C++ client."""

    Murmur3_32Hash = 0
    BoostHash = 1  # the default of Apache's C++ and Python clients
    JavaStringHash = 2  # the default of Apache's Java and Go clients


class ProducerAccessMode(NamedNumber):
    """Whether a producer shares its topic with others."""

    Shared = 0
    Exclusive = 1  # exclusive access, or the error ProducerFenced
    WaitForExclusive = 2  # waits until the other producers have left
    ExclusiveWithFencing = 3  # closes the other producers


class KeySharedMode(NamedNumber):
    """Who decides which keys a Key_Shared consumer gets."""

    AutoSplit = 0  # the broker
    Sticky = 1  # the consumer


class RegexSubscriptionMode(NamedNumber):
    """Which topics a pattern may match."""

    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


class ConsumerCryptoFailureAction(NamedNumber):
    """What happens to a message that the consumer cannot decrypt."""

    FAIL = 0  # the application does not get it, and it is not acknowledged
    DISCARD = 1  # the application does not get it, and it is acknowledged
    CONSUME = 2  # the application gets it, still encrypted


class ConsumerKeySharedPolicy:
    """How a Key_Shared consumer takes part in its subscription."""

    __slots__ = ("allow_out_of_order_delivery", "key_shared_mode", "sticky_ranges")

    key_shared_mode: KeySharedMode
    allow_out_of_order_delivery: bool
    sticky_ranges: tuple[tuple[int, int], ...]

    def __init__(
        self,
        key_shared_mode: KeySharedMode = KeySharedMode.AutoSplit,
        allow_out_of_order_delivery: bool = False,
        sticky_ranges: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """`sticky_ranges`: pairs of first and last hash, both included, from 0 to 65,535. Required with Sticky.

        Raises ValueError for Sticky without ranges, and if ranges are out of bounds or overlap.
        """
        if key_shared_mode == KeySharedMode.Sticky and not sticky_ranges:
            raise ValueError("KeySharedMode.Sticky needs sticky_ranges, such as [(0, 32767)]")
        ranges = tuple((int(first), int(last)) for first, last in sticky_ranges or ())
        previous = -1
        for first, last in sorted(ranges):
            if not previous < first <= last < KEY_HASHES:
                raise ValueError(
                    f"sticky range ({first}, {last}): ranges must be within 0 to {KEY_HASHES - 1} and must not overlap"
                )
            previous = last
        self.key_shared_mode = key_shared_mode
        self.allow_out_of_order_delivery = allow_out_of_order_delivery
        self.sticky_ranges = ranges


class ConsumerDeadLetterPolicy:
    """After how many failures a message becomes a dead letter, and which topic it goes to."""

    __slots__ = (
        "dead_letter_topic",
        "initial_subscription_name",
        "max_redeliver_count",
        "retry_letter_topic",
        "rule",
    )

    max_redeliver_count: int
    dead_letter_topic: str | None
    initial_subscription_name: str | None
    retry_letter_topic: str | None
    rule: DeadLetterRule

    def __init__(
        self,
        max_redeliver_count: int,
        dead_letter_topic: str | None = None,
        initial_subscription_name: str | None = None,
        *,
        retry_letter_topic: str | None = None,
        rule: DeadLetterRule = DeadLetterRule.JAVA,
    ) -> None:
        """The default topics are `<topic>-<subscription>-DLQ` and `<topic>-<subscription>-RETRY`.

        `initial_subscription_name`: a subscription of the dead-letter topic, created if it is missing, so that the
        messages there are kept. `rule`: how often the application gets a message before it becomes a dead letter:
        max + 1 times, as with Apache's Java, C++ and Python clients, or max times, as with its Go client. Raises
        ValueError if `max_redeliver_count` is below 1.
        """
        if not isinstance(max_redeliver_count, int) or max_redeliver_count < 1:
            raise ValueError(
                f"max_redeliver_count must be a whole number, at least 1, not {max_redeliver_count!r}"
            )
        self.max_redeliver_count = max_redeliver_count
        self.dead_letter_topic = dead_letter_topic or None
        self.initial_subscription_name = initial_subscription_name or None
        self.retry_letter_topic = retry_letter_topic or None
        self.rule = DeadLetterRule(rule)


class ConsumerBatchReceivePolicy:
    """When `batch_receive()` returns: after enough messages, enough bytes or enough time, whichever comes first."""

    __slots__ = ("max_num_bytes", "max_num_message", "timeout_ms")

    max_num_message: int
    max_num_bytes: int
    timeout_ms: int

    def __init__(
        self, max_num_message: int = -1, max_num_bytes: int = 10 * 1024 * 1024, timeout_ms: int = 100
    ) -> None:
        """0 or less turns a limit off. Raises ValueError if all are off, or if one is not a whole number below 2^63."""
        for limit in (max_num_message, max_num_bytes, timeout_ms):
            if not isinstance(limit, int) or limit >= 1 << 63:
                raise ValueError(f"the limits of a batch receive must be 64-bit whole numbers, not {limit!r}")
        if max_num_message <= 0 and max_num_bytes <= 0 and timeout_ms <= 0:
            raise ValueError("at least one of max_num_message, max_num_bytes and timeout_ms must be positive")
        self.max_num_message = max_num_message
        self.max_num_bytes = max_num_bytes
        self.timeout_ms = timeout_ms
