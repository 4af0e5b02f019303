"""The interfaces that doors use to reach the broker. A door is the code that serves one network protocol.

This file is long because it declares the interfaces of all doors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.core.subscription.departure import DepartureCause

if TYPE_CHECKING:
    from collections import Counter

    from broker.acts.own_requests import OwnRequests
    from broker.clock import Clock
    from broker.conf import BrokerSettings
    from broker.core.access.credentials import Credentials
    from broker.core.access.permissions import Action, Subject
    from broker.core.access.principal import Principal
    from broker.core.client_identity import ClientIdentity
    from broker.core.entry import StoredEntry
    from broker.core.errors import BrokerError
    from broker.core.position import Position
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.subscription.types import SubscriptionType
    from broker.core.topic_name import TopicName
    from broker.core.topic_pattern import TopicPattern
    from broker.listening.connection_limits import ConnectionLimits
    from broker.log.sends import SendRequest
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.producers.schemas import Schemas
    from broker.pulls.values import ParkedPull, PullAnswer, PullAsk
    from broker.storage.pool import ConnectionPool
    from broker.subscription.consumer import ConsumerRates, DueFilter
    from broker.subscription.requests import (
        AckRequest,
        ConsumerSink,
        ConsumerStatistics,
        DurableCallback,
        LastMessage,
        SubscribeRequest,
    )
    from broker.topics.non_persistent.topics import NonPersistentTopics
    from broker.topics.policies import PolicyChanges
    from broker.topics.rates import Rates
    from broker.topics.topics import Topics

__all__ = [
    "AccessPort",
    "AdminPort",
    "BrokerPort",
    "ClientPort",
    "ConsumerPort",
    "CredentialsPort",
    "LookupPort",
    "MetricsPort",
    "PartitionsPort",
    "ProducerPort",
    "PublishPort",
    "PullsPort",
    "SchemasPort",
    "StatusPort",
    "SubscribePort",
    "TopicListPort",
]


class ProducerPort(Protocol):
    """One producer."""

    @property
    def name(self) -> str:
        """The name that the client or the broker chose."""

    @property
    def last_sequence_id(self) -> int:
        """The last sequence id that was stored before the producer opened, or -1."""

    @property
    def schema_version(self) -> bytes:
        """The version of the producer's schema, or b"" if the producer has no schema."""

    @property
    def topic_epoch(self) -> int | None:
        """The topic epoch, or None if the producer has no exclusive access."""

    @property
    def is_open(self) -> bool:
        """Whether the producer is attached."""

    @property
    def is_ready(self) -> bool:
        """Whether the producer is open and has the access that it asked for."""

    @property
    def max_message_bytes(self) -> int:
        """The topic's limit for an entry's payload, or 0 if the topic sets no limit."""

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition."""

    def send(self, request: SendRequest) -> None:
        """Queue one entry. The producer's sink gets the answer. Raises nothing."""

    def refused(self, error: BrokerError) -> None:
        """Record why the door refused an entry."""

    async def close(self) -> None:
        """Wait until every send is answered or the broker closes the producer, then detach."""

    def detach(self) -> None:
        """Detach at once. Safe to repeat."""


class ConsumerPort(Protocol):
    """One consumer."""

    @property
    def is_open(self) -> bool:
        """Whether the consumer is attached."""

    @property
    def name(self) -> str:
        """The name that the client or the door chose."""

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition."""

    @property
    def subscription_type(self) -> SubscriptionType:
        """The subscription type that the client asked for."""

    @property
    def epoch(self) -> int | None:
        """The consumer epoch, or None if the client never sent an epoch."""

    def statistics(self, rates: ConsumerRates) -> ConsumerStatistics:
        """Return the consumer's statistics."""

    def flow(self, permits: int) -> None:
        """Grant permits. Raises InvalidFlow if `permits` is below 1."""

    def ack(
        self,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None = None,
        validation_error: str | None = None,
        permits_settled: bool = False,
    ) -> None:
        """Acknowledge entries. Safe to repeat.

        `on_durable` is called once, even if the ack fails. `validation_error` says why the client discards the entries.
        If `permits_settled` is True, the discarded entries do not change the consumer's permits.
        """

    def redeliver(self, positions: Sequence[Position] | None, *, epoch: int | None = None) -> None:
        """Redeliver the entries at `positions`. If `positions` is None, redeliver all entries pending at this consumer.

        On Exclusive and Failover, the active consumer's request redelivers all unacked entries, and requests of other
        consumers are ignored.
        """

    def redeliver_at(self, positions: Sequence[Position], due_ms: int) -> None:
        """Redeliver the entries at `due_ms`, unless they are acked before that time.

        On Exclusive and Failover, all unacked entries are redelivered.
        """

    def filter_due(self, due_filter: DueFilter) -> None:
        """Let `due_filter` choose which overdue entries are redelivered."""

    def redelivery_count(self, position: Position) -> int:
        """Return an entry's redelivery count, which is always 0 on Exclusive and Failover."""

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether the consumer's topic or partition still has this ledger."""

    def has_pending(self, position: Position) -> bool:
        """Return whether the entry was sent to this consumer and is not fully acked."""

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """Return an entry and the bitset of its unacked messages. Raises BrokerError.

        If the bitset is None, no message is acked.
        """

    def acker(self) -> Callable[[Sequence[AckRequest]], None]:
        """Return a function that acks for this consumer, even after the consumer is detached.

        After a cursor reset or a seek, the function does nothing.
        """

    def letter_written(self, position: Position, topic: str, *, is_retry: bool) -> None:
        """Record that the door copied an entry to a dead letter or retry letter topic."""

    async def seek_position(self, position: Position, remaining: int | None) -> None:
        """Move the cursor to the entry at `position`. Raises BrokerError.

        `remaining` is the bitset of messages to deliver from this entry. If `remaining` is None, all messages are
        delivered. The broker first closes this consumer.
        """

    async def seek_time(self, time_ms: int) -> None:
        """Move the cursor to the first entry that was appended at or after this time.

        The broker first closes this consumer.
        """

    async def last_message(self) -> LastMessage:
        """Return the last message that the consumer can get, and the mark-delete position."""

    async def unsubscribe(self, *, force: bool) -> None:
        """Delete the subscription. Without `force`, raises BrokerError if other consumers are attached."""

    def writable_again(self) -> None:
        """Resume delivery, because the peer can receive bytes again."""

    def stop_delivery(self) -> None:
        """Deliver nothing more, because the connection is lost."""

    def detach(self, cause: DepartureCause = DepartureCause.LOST) -> None:
        """Detach at once. Safe to repeat."""


class TopicListPort(Protocol):
    """One watched list of topics."""

    @property
    def is_open(self) -> bool:
        """Whether the watch is running."""

    @property
    def names(self) -> frozenset[str]:
        """The full names of the matching topics. For a partitioned topic, the set has the names of the partitions."""

    def detach(self) -> None:
        """End the watch. Safe to repeat."""


class StatusPort(Protocol):
    """Readiness, settings and connection limits."""

    @property
    def connections(self) -> ConnectionLimits:
        """The limits on connections."""

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings."""

    def is_ready(self) -> tuple[bool, str]:
        """Return whether the broker serves clients and, if not, the reason."""


class MetricsPort(StatusPort, Protocol):
    """The data for `/metrics` and `/readyz`."""

    def metrics_page(self) -> Iterator[bytes]:
        """Yield Prometheus text in slices."""


class PartitionsPort(Protocol):
    """The partitions of topics."""

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """Return the number of partitions, or 0 if the topic is not partitioned. Raises BrokerError.

        With `create`, the broker creates a missing topic if the policies say that new topics are partitioned.
        """


class LookupPort(StatusPort, PartitionsPort, Protocol):
    """The topics, and the URLs of their brokers."""

    def service_urls(self, topic: TopicName) -> tuple[str, str]:
        """Return the plain URL and the TLS URL of a topic's broker."""

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's topics. Raises InvalidTopicName.

        For a partitioned topic, the list has the names of the partitions.
        """

    async def watch_topics(
        self,
        namespace: str,
        pattern: TopicPattern,
        on_change: Callable[[frozenset[str], frozenset[str]], None],
    ) -> TopicListPort:
        """Watch the persistent topics that match a pattern. `on_change` gets the added and the removed names.

        Raises InvalidTopicName.
        """


class PublishPort(StatusPort, PartitionsPort, Protocol):
    """Opens producers."""

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> ProducerPort:
        """Open a producer. Raises BrokerError."""


class SubscribePort(StatusPort, PartitionsPort, Protocol):
    """Attaches consumers."""

    @property
    def rates(self) -> Rates:
        """The latest measured rates."""

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> ConsumerPort:
        """Attach a consumer. Raises BrokerError."""


class SchemasPort(Protocol):
    """The schemas of topics."""

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """Return one version of a topic's schema, or the latest version if `version` is None. Raises BrokerError."""

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """Store the schema if it is new. Return the schema's version. Raises BrokerError.

        The version of a schema of type NONE is b"".
        """


class PullsPort(StatusPort, PartitionsPort, Protocol):
    """The requests of pull clients."""

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        """Answer a long-poll pull, or park the pull until messages arrive. Raises BrokerError."""

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        """Answer or park a pull without PostgreSQL. Return None if PostgreSQL must be queried. Raises BrokerError."""

    def forget_pull(self, parked: ParkedPull) -> None:
        """Drop a parked pull without an answer. Safe to repeat."""

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """Return the offset that a consumer group committed. Raises BrokerError."""

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Store the offset of a consumer group, and return the stored offset.

        `peer` is the client's address without its port. Raises BrokerError.
        """


class ClientPort(LookupPort, PublishPort, SubscribePort, SchemasPort, PullsPort, Protocol):
    """All requests that a client can make."""


class AccessPort(Protocol):
    """Authentication and permissions of clients."""

    @property
    def is_on(self) -> bool:
        """Whether the broker asks clients for credentials."""

    @property
    def takes_tokens(self) -> bool:
        """Whether clients may authenticate with tokens."""

    @property
    def takes_passwords(self) -> bool:
        """Whether clients may authenticate with passwords."""

    def authenticate_now(self, credentials: Credentials, now_ms: int) -> Principal | None:
        """Return the client with these credentials, or None if only `authenticate` can check them.

        Raises AuthenticationFailed. Raises NotAuthorized if the original principal is not accepted.
        """

    async def authenticate(self, credentials: Credentials, now_ms: int) -> Principal:
        """Return the client with these credentials. Raises the same errors as `authenticate_now`."""

    def check_current(self, principal: Principal, now_ms: int) -> None:
        """Raise AuthenticationFailed if the credentials have expired or were revoked."""

    def check_revoked(self, principal: Principal) -> None:
        """Raise AuthenticationFailed if the token was revoked, or if the password was changed or removed."""

    def check(self, principal: Principal, action: Action, subject: Subject) -> None:
        """Raise NotAuthorized unless the client may take this action."""

    async def load(self) -> None:
        """Read the stored permissions and revoked tokens. Raises psycopg.Error."""

    def watch(self, recheck: Callable[[], None]) -> Callable[[], None]:
        """Call `recheck` whenever permissions or passwords change, or a token is revoked.

        Return a function that ends the watch.
        """


class CredentialsPort(Protocol):
    """Authentication of clients."""

    @property
    def access(self) -> AccessPort:
        """Authentication and permissions."""

    @property
    def connections(self) -> ConnectionLimits:
        """The limits on connections."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""


class BrokerPort(MetricsPort, ClientPort, CredentialsPort, Protocol):
    """The broker for all doors except the admin API."""

    @property
    def refused_requests(self) -> Counter[str]:
        """The number of refused requests on binary connections, by kind."""


class AdminPort(LookupPort, PublishPort, CredentialsPort, Protocol):
    """The broker for the admin API."""

    @property
    def own_requests(self) -> OwnRequests:
        """The object that carries out acts. An act is a change that the broker makes on request."""

    @property
    def topics(self) -> Topics:
        """The persistent topics."""

    @property
    def non_persistent(self) -> NonPersistentTopics:
        """The non-persistent topics."""

    @property
    def policies(self) -> PolicyChanges:
        """The policies."""

    @property
    def schemas(self) -> Schemas:
        """The schema registry."""

    @property
    def rates(self) -> Rates:
        """The latest measured rates."""

    @property
    def pool(self) -> ConnectionPool:
        """The pool of connections to PostgreSQL."""
