"""The arguments of `Client.subscribe`, checked."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from vela.aio.consumers.listener_view import ListenerView
from vela.core.acks.negative_acks import NegativeAckTimer
from vela.core.acks.options import AckOptions
from vela.core.argument_checks import (
    require_callable,
    require_choice,
    require_kind,
    require_methods,
    require_number,
    require_strings,
    require_text,
    require_whole,
)
from vela.core.consuming.delivery_options import DeliveryOptions
from vela.errors import InvalidConfiguration
from vela.message import Message, MessageId
from vela.options import (
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerType,
    InitialPosition,
    RegexSubscriptionMode,
)
from vela.schema.base import Schema
from vela.wire.redelivery_backoff import RedeliveryBackoff

if TYPE_CHECKING:
    from vela.aio.deliveries.listener import LoopCalls
    from vela.aio.letters.letter_box import LetterBox
    from vela.core.consuming.entry_opening import Decrypt
    from vela.encryption.key_reader import AbstractCryptoKeyReader

__all__ = ["DEFAULT_RECEIVER_QUEUE_SIZE", "ConsumerEvents", "ConsumerOptions", "MessageListener"]

DEFAULT_RECEIVER_QUEUE_SIZE: Final = 1000
_NAME_BYTES: Final = 3
_NAME_CHARACTERS: Final = 5

_CHOICES: Final = {
    "consumer_type": ConsumerType,
    "initial_position": InitialPosition,
    "regex_subscription_mode": RegexSubscriptionMode,
    "crypto_failure_action": ConsumerCryptoFailureAction,
}

_KINDS: Final = {
    "schema": Schema,
    "batch_receive_policy": ConsumerBatchReceivePolicy,
    "key_shared_policy": ConsumerKeySharedPolicy,
    "dead_letter_policy": ConsumerDeadLetterPolicy,
    "ack_timeout_redelivery_backoff": RedeliveryBackoff,
    "negative_ack_redelivery_backoff": RedeliveryBackoff,
    "negative_ack_timer": NegativeAckTimer,
}

_LEAST: Final = {
    "max_total_receiver_queue_size_across_partitions": 0,
    "negative_ack_redelivery_delay_ms": 0,
    "max_pending_chunked_message": 0,
    "priority_level": 0,
    "expire_time_of_incomplete_chunked_message_ms": 0,
    "ack_group_time_ms": 0,
    "ack_group_size": 1,
    "unacked_messages_tick_ms": 0,
}

MessageListener = Callable[[Any, Message], Awaitable[None] | None]
"""Called with the consumer and a message. A coroutine function runs on the event loop, any other on a thread."""


class ConsumerEvents(Protocol):
    """Your callbacks for a Failover consumer. They run on a separate thread."""

    def became_active(self, consumer: Any, partition: int) -> None:
        """The consumer now gets the messages of a partition, or of the topic if `partition` is -1."""

    def became_inactive(self, consumer: Any, partition: int) -> None:
        """Another consumer gets the messages of a partition, or of the topic if `partition` is -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """The options of a consumer. `Client.subscribe` explains those that it takes, with the same defaults."""

    subscription_name: str
    consumer_type: ConsumerType = ConsumerType.Exclusive
    schema: Schema[Any] | None = None  # None = bytes
    message_listener: MessageListener | None = None
    receiver_queue_size: int | None = DEFAULT_RECEIVER_QUEUE_SIZE  # messages; None = the default
    max_total_receiver_queue_size_across_partitions: int = 50_000  # messages
    consumer_name: str | None = None
    unacked_messages_timeout_ms: int | None = None
    negative_ack_redelivery_delay_ms: int = 60_000
    is_read_compacted: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    pattern_auto_discovery_period: int = 60  # seconds
    partitions_update_interval_s: float = 60  # 0 = never
    initial_position: InitialPosition = InitialPosition.Latest
    crypto_key_reader: AbstractCryptoKeyReader | None = None
    replicate_subscription_state_enabled: bool = False
    max_pending_chunked_message: int = 10
    auto_ack_oldest_chunked_message_on_queue_full: bool = False
    start_message_id_inclusive: bool = False
    batch_receive_policy: ConsumerBatchReceivePolicy = field(default_factory=ConsumerBatchReceivePolicy)
    key_shared_policy: ConsumerKeySharedPolicy | None = None
    batch_index_ack_enabled: bool = False
    regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly
    dead_letter_policy: ConsumerDeadLetterPolicy | None = None
    crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL
    enable_zero_queue_consumer: bool = False
    auto_scaled_receiver_queue_size_enabled: bool = False
    priority_level: int = 0
    start_paused: bool = False
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    consumer_event_listener: ConsumerEvents | None = None
    expire_time_of_incomplete_chunked_message_ms: int = 60_000
    ack_group_time_ms: int = 100
    ack_group_size: int = 1000  # ids
    ack_receipt_enabled: bool = False
    unacked_messages_tick_ms: int = 1000
    ack_timeout_redelivery_backoff: RedeliveryBackoff | None = None
    negative_ack_redelivery_backoff: RedeliveryBackoff | None = None
    negative_ack_timer: NegativeAckTimer = NegativeAckTimer.PRECISE
    retry_enable: bool = False
    retry_on_ack_timeout: bool = False
    durable: bool = True  # False: the broker deletes the subscription with its last consumer, as for readers
    start_message_id: MessageId | None = None  # only if not durable
    letters: LetterBox | None = None  # set by `subscribe` from the options about dead and retry letters
    # Creates the view of the consumer that a listener on a thread gets.
    listener_view: Callable[[Any, LoopCalls], Any] = ListenerView
    create_topic: bool = True  # let the broker create the topic if it does not exist

    def __post_init__(self) -> None:
        """Check the options. Raises InvalidConfiguration, which names the argument."""
        if not isinstance(self.subscription_name, str) or not self.subscription_name:
            raise InvalidConfiguration(
                f"subscription_name must be a non-empty string, not {self.subscription_name!r}"
            )
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        require_callable("message_listener", self.message_listener)
        for name, kind in _KINDS.items():
            require_kind(name, getattr(self, name), kind)
        require_methods("crypto_key_reader", self.crypto_key_reader, "get_private_key")
        require_methods(
            "consumer_event_listener", self.consumer_event_listener, "became_active", "became_inactive"
        )
        require_strings("properties", self.properties)
        require_strings("subscription_properties", self.subscription_properties)
        require_text("consumer_name", self.consumer_name)
        self._check_numbers()
        if self.start_message_id is not None and self.durable:
            raise InvalidConfiguration("start_message_id needs a subscription that is not durable")
        if self.is_read_compacted and self.is_shared:
            raise InvalidConfiguration("is_read_compacted needs an Exclusive or Failover subscription")
        if self.consumer_event_listener is not None and self.consumer_type is not ConsumerType.Failover:
            raise InvalidConfiguration(
                "consumer_event_listener needs ConsumerType.Failover: other consumers do not become active or inactive"
            )
        if self.key_shared_policy is not None and self.consumer_type is not ConsumerType.KeyShared:
            raise InvalidConfiguration("key_shared_policy needs ConsumerType.KeyShared")
        if self.queue_size == 0:
            self._check_zero_queue()

    def _check_numbers(self) -> None:
        size = self.receiver_queue_size
        if size is not None and (not isinstance(size, int) or size < 0):
            raise InvalidConfiguration(
                f"receiver_queue_size must be a whole number, 0 or more, not {size!r}; None = 1000"
            )
        for name, least in _LEAST.items():
            require_whole(name, getattr(self, name), least=least)
        if self.unacked_messages_timeout_ms is not None:
            require_whole("unacked_messages_timeout_ms", self.unacked_messages_timeout_ms)
        require_number("partitions_update_interval_seconds", self.partitions_update_interval_s)
        require_number("pattern_auto_discovery_period", self.pattern_auto_discovery_period, least=None)

    def _check_zero_queue(self) -> None:
        if self.retry_enable:
            raise InvalidConfiguration(
                "retry_enable needs receiver_queue_size > 0, because the consumer then reads two topics"
            )
        if self.auto_scaled_receiver_queue_size_enabled:
            raise InvalidConfiguration(
                "a queue of 0 messages cannot be auto-scaled: leave out one of the two options"
            )

    @property
    def queue_size(self) -> int:
        """Return how many messages to fetch in advance; 0 = none."""
        if self.enable_zero_queue_consumer:
            return 0
        size = self.receiver_queue_size
        return DEFAULT_RECEIVER_QUEUE_SIZE if size is None else size

    def name(self) -> str:
        """Return the name for a new consumer: the given one, or five random hexadecimal digits."""
        return self.consumer_name or secrets.token_hex(_NAME_BYTES)[:_NAME_CHARACTERS]

    @property
    def is_shared(self) -> bool:
        """Return whether several consumers get messages at once: Shared or Key_Shared."""
        return self.consumer_type in (ConsumerType.Shared, ConsumerType.KeyShared)

    def ack_options(self, topic: str, *, receipt_timeout_s: float) -> AckOptions:
        """Return the options for the acks of one topic (full name)."""
        return AckOptions(
            is_shared=self.is_shared,
            is_persistent=topic.startswith("persistent://"),
            batch_index_acks=self.batch_index_ack_enabled,
            group_ms=self.ack_group_time_ms,
            group_size=self.ack_group_size,
            receipts=self.ack_receipt_enabled,
            receipt_timeout_s=receipt_timeout_s,
            ack_timeout_ms=self.unacked_messages_timeout_ms or 0,
            ack_timeout_tick_ms=self.unacked_messages_tick_ms,
            ack_timeout_backoff=self.ack_timeout_redelivery_backoff,
            negative_ack_delay_ms=self.negative_ack_redelivery_delay_ms,
            negative_ack_backoff=self.negative_ack_redelivery_backoff,
            negative_ack_timer=self.negative_ack_timer,
        )

    def delivery_options(self, *, max_uncompressed_bytes: int) -> DeliveryOptions:
        """Return the options for deliveries."""
        return DeliveryOptions(
            is_durable=self.durable,
            schema=self.schema,
            decrypt=self._decrypt(),
            crypto_failure_action=self.crypto_failure_action,
            max_uncompressed_bytes=max_uncompressed_bytes,
            max_pending_chunked_messages=self.max_pending_chunked_message,
            chunk_expiry_ms=self.expire_time_of_incomplete_chunked_message_ms,
            acks_oldest_chunks=self.auto_ack_oldest_chunked_message_on_queue_full,
        )

    def _decrypt(self) -> Decrypt | None:
        if self.crypto_key_reader is None:
            return None
        from vela.encryption.decryptor import Decryptor  # needs the extra vela[encryption]

        return Decryptor(self.crypto_key_reader).decrypt
