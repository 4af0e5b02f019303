"""A producer's options, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vela.core.acks.batch_acks import MAX_BATCH_SIZE
from vela.core.argument_checks import (
    require_callable,
    require_choice,
    require_kind,
    require_number,
    require_strings,
    require_text,
    require_whole,
)
from vela.core.producing.batching import BatchLimits
from vela.errors import InvalidConfiguration
from vela.message import Message
from vela.options import (
    BatchingType,
    CompressionType,
    HashingScheme,
    PartitionsRoutingMode,
    ProducerAccessMode,
)
from vela.schema.base import Schema
from vela.schema.primitive import BytesSchema
from vela.wire.entry.sealing import Encrypt

__all__ = ["MessageRouter", "ProducerOptions"]

MessageRouter = Callable[[Message, int], int]
"""A function from a message and the number of partitions to a partition, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """The options of a producer. Names and defaults are those of Apache's Python client; other options come last."""

    producer_name: str | None = None  # None = the broker chooses one
    schema: Schema[Any] = field(default_factory=BytesSchema)
    # one less than the first id; None = continue after the last stored one
    initial_sequence_id: int | None = None
    send_timeout_millis: int = 30_000  # 0 = wait for ever
    compression_type: CompressionType = CompressionType.NONE
    max_pending_messages: int = 1000  # 0 = no limit
    max_pending_messages_across_partitions: int = 50_000
    block_if_queue_full: bool = False
    batching_enabled: bool = False
    batching_max_messages: int = 1000
    batching_max_allowed_size_in_bytes: int = 128 * 1024
    batching_max_publish_delay_ms: float = 10
    chunking_enabled: bool = False
    message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution
    lazy_start_partitioned_producers: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    batching_type: BatchingType = BatchingType.Default
    encrypt: Encrypt | None = None
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    message_router: MessageRouter | None = None
    hashing_scheme: HashingScheme = HashingScheme.BoostHash
    partitions_update_interval_s: float = 60  # time between looks for new partitions, 0 = never
    initial_subscription_name: str | None = None  # created if it is missing

    def __post_init__(self) -> None:
        """Check the options. Raises InvalidConfiguration, which names the argument."""
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        require_callable("message_router", self.message_router)
        require_kind("schema", self.schema, Schema)
        require_strings("properties", self.properties)
        require_text("producer_name", self.producer_name)
        require_text("initial_subscription_name", self.initial_subscription_name)
        if self.batching_enabled and self.chunking_enabled:
            raise InvalidConfiguration(
                "batching_enabled and chunking_enabled exclude each other: a chunk is never in a batch"
            )
        for name, least in _LEAST.items():
            require_whole(name, getattr(self, name), least=least)
        require_number("batching_max_publish_delay_ms", self.batching_max_publish_delay_ms)
        require_number("partitions_update_interval_seconds", self.partitions_update_interval_s)
        if self.initial_sequence_id is not None:
            require_whole("initial_sequence_id", self.initial_sequence_id)
        if self.message_routing_mode is PartitionsRoutingMode.CustomPartition and self.message_router is None:
            raise InvalidConfiguration("PartitionsRoutingMode.CustomPartition needs a message_router")

    def batch_limits(self) -> BatchLimits | None:
        """Return the limits of a batch, or None if nothing is batched.

        A batch never gets more messages than a consumer can acknowledge one by one.
        """
        if not self.batching_enabled:
            return None
        return BatchLimits(
            max_messages=min(self.batching_max_messages, MAX_BATCH_SIZE),
            max_bytes=self.batching_max_allowed_size_in_bytes,
        )

    def of_partition(self, partitions: int) -> ProducerOptions:
        """Return the options for the producer of one of several partitions, with its share of the pending messages."""
        share = max(1, self.max_pending_messages_across_partitions // partitions)
        limit = min(self.max_pending_messages, share) if self.max_pending_messages else share
        return replace(self, max_pending_messages=limit)


_CHOICES = {
    "compression_type": CompressionType,
    "message_routing_mode": PartitionsRoutingMode,
    "batching_type": BatchingType,
    "access_mode": ProducerAccessMode,
    "hashing_scheme": HashingScheme,
}
_LEAST = {
    "send_timeout_millis": 0,
    "max_pending_messages": 0,
    "max_pending_messages_across_partitions": 1,
    "batching_max_messages": 1,
    "batching_max_allowed_size_in_bytes": 1,
}
