"""What the faces ask of the running broker, as protocols: `broker.process` provides it, tests bring a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections import Counter

    from broker.conf import BrokerSettings
    from broker.core.client_identity import ClientIdentity
    from broker.core.entry import StoredEntry
    from broker.core.position import Position
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.subscription.types import SubscriptionType
    from broker.core.topic_name import TopicName
    from broker.log.sends import SendRequest
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.pulls.values import HeldPull, PullAnswer, PullAsk
    from broker.subscription.consumer import DueFilter
    from broker.subscription.requests import (
        AckRequest,
        ConsumerSink,
        DurableCallback,
        LastMessage,
        SubscribeRequest,
    )

__all__ = ["BrokerPort", "ConsumerPort", "ProducerPort"]


class ProducerPort(Protocol):
    """`broker.producers.producer.Producer`."""

    @property
    def name(self) -> str:
        """As the client gave it, or as the broker made it."""

    @property
    def last_sequence_id(self) -> int:
        """Of the last stored message of this name, -1 = not known."""

    @property
    def schema_version(self) -> bytes:
        """Of the schema it was opened with, b"" = none."""

    @property
    def topic_epoch(self) -> int | None:
        """Of an exclusive producer, None for others."""

    @property
    def is_ready(self) -> bool:
        """False while it waits for exclusive access."""

    @property
    def max_message_bytes(self) -> int:
        """The topic's own limit for one entry's payload, 0 = the setting's alone."""

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition."""

    def send(self, request: SendRequest) -> None:
        """Queue one entry; the answer comes through the sink. Raises nothing."""

    async def close(self) -> None:
        """Detach after every pending send has been answered."""

    def detach(self) -> None:
        """The connection is lost. Safe to repeat."""


class ConsumerPort(Protocol):
    """`broker.subscription.consumer.Consumer`."""

    @property
    def name(self) -> str:
        """As the client gave it."""

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition."""

    @property
    def subscription_type(self) -> SubscriptionType:
        """The type it attached with."""

    @property
    def epoch(self) -> int | None:
        """What every frame to it carries; None when its client never sent one."""

    def flow(self, permits: int) -> None:
        """Grant permits, in messages. Raises InvalidFlow for 0 or less."""

    def ack(
        self,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None = None,
        validation_error: str | None = None,
        permits_settled: bool = False,
    ) -> None:
        """Acknowledge; safe to repeat. `permits_settled`: the face returns a discarded entry's permits itself."""

    def redeliver(self, positions: Sequence[Position] | None, *, epoch: int | None = None) -> None:
        """Take these back, or with None everything unacked; `epoch` is the client's from now on."""

    def redeliver_at(self, positions: Sequence[Position], due_ms: int) -> None:
        """Take these back at `due_ms`, unless they are acked before."""

    def filter_due(self, due_filter: DueFilter) -> None:
        """Ask before what is overdue is redelivered."""

    def redelivery_count(self, position: Position) -> int:
        """How often redelivery of an entry was asked for."""

    def holds(self, position: Position) -> bool:
        """Whether it was sent the entry and some of it is unacked."""

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """An entry once more, and what is unacked of it. Raises BrokerError."""

    def acker(self) -> Callable[[Sequence[AckRequest]], None]:
        """Acks that count even when the consumer has left."""

    async def seek_position(self, position: Position, remaining: int | None) -> None:
        """Make `position` the next to be sent. Raises BrokerError."""

    async def seek_time(self, publish_time_ms: int) -> None:
        """Make the first entry not older than this the next to be sent. Raises BrokerError."""

    async def last_message(self) -> LastMessage:
        """The topic's last entry and this subscription's mark-delete position."""

    async def unsubscribe(self, *, force: bool) -> None:
        """Remove the subscription. Raises BrokerError."""

    def writable_again(self) -> None:
        """The peer takes bytes again."""

    def detach(self) -> None:
        """The connection is lost, or the client closed the consumer. Safe to repeat."""


class BrokerPort(Protocol):
    """`broker.process.broker.Broker`."""

    @property
    def settings(self) -> BrokerSettings:
        """As read at start."""

    @property
    def refused_requests(self) -> Counter[str]:
        """How many requests were refused since the start, by kind."""

    def is_ready(self) -> tuple[bool, str]:
        """Whether clients are served, and if not, why."""

    def metrics_page(self) -> Iterator[bytes]:
        """Prometheus text in slices, each of which takes about a millisecond to make."""

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """0 = not partitioned. Raises TopicNotFound."""

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Full names; partitions one by one."""

    async def pull(self, ask: PullAsk) -> PullAnswer | HeldPull:
        """A long-poll pull: its answer, or a request that is held. Raises BrokerError."""

    def pull_now(self, ask: PullAsk) -> PullAnswer | HeldPull | None:
        """The same without a query; None when it needs one. Raises BrokerError."""

    def forget_pull(self, held: HeldPull) -> None:
        """Whoever waited is gone. Safe to repeat."""

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """How far a consumer group says it is. Raises BrokerError."""

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Store that everything before `offset` is consumed; return the offset kept. Raises BrokerError."""

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> ProducerPort:
        """Raises BrokerError (protocol 3.5)."""

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """A version of a topic's schema, None = the latest. Raises SchemaNotFound, IncompatibleSchema."""

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """The version of this schema. Raises IncompatibleSchema, TopicNotFound."""

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> ConsumerPort:
        """Raises BrokerError (protocol 3.7)."""
