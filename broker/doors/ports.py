"""The interfaces of the running broker that doors use, as classes of `typing.Protocol`.

A door is the code that serves one network protocol. Where no other class is named, `Broker` in
`broker/process/broker.py` or one of its parts implements the interface. Tests use fakes.
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
    """One open producer. `broker.producers.producer.Producer` implements it."""

    @property
    def name(self) -> str:
        """The name that the client gave, or that the broker generated."""

    @property
    def last_sequence_id(self) -> int:
        """The sequence id of the last message stored under this name before the opening, -1 = not known."""

    @property
    def schema_version(self) -> bytes:
        """The version of the schema that the producer was opened with, b"" = none."""

    @property
    def topic_epoch(self) -> int | None:
        """The topic epoch of an exclusive producer once it has access, otherwise None."""

    @property
    def is_open(self) -> bool:
        """False once the producer is detached, or the broker has closed it."""

    @property
    def is_ready(self) -> bool:
        """False while the producer waits for exclusive access, and once it is no longer open."""

    @property
    def max_message_bytes(self) -> int:
        """The topic's own limit for one entry's payload, 0 = only the broker's setting limits it."""

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition."""

    def send(self, request: SendRequest) -> None:
        """Queue one entry. The sink gets the answer. Raises nothing."""

    def refused(self, error: BrokerError) -> None:
        """Record, for the console, why the door refused an entry."""

    async def close(self) -> None:
        """Wait until every send has its answer or the broker closes the producer, then detach."""

    def detach(self) -> None:
        """Detach at once, for example because the connection is lost. Safe to repeat."""


class ConsumerPort(Protocol):
    """One attached consumer. `broker.subscription.consumer.Consumer` implements it."""

    @property
    def is_open(self) -> bool:
        """False once the consumer is detached, or the broker has closed it."""

    @property
    def name(self) -> str:
        """The name that the client gave, or that the door generated."""

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition."""

    @property
    def subscription_type(self) -> SubscriptionType:
        """The subscription type that the consumer attached with."""

    @property
    def epoch(self) -> int | None:
        """The consumer epoch, for message frames of the binary protocol; None if the client never sent one."""

    def statistics(self, rates: ConsumerRates) -> ConsumerStatistics:
        """Return the consumer's figures."""

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
        """Acknowledge. Safe to repeat.

        `on_durable` is called once: when the ack is stored, or with an error. An ack of a reader or on a non-persistent
        topic is not stored: `on_durable` is called when the ack is applied. `validation_error` says why the client
        discards the entries. If `permits_settled` is True, the door itself grants permits for the discarded entries.
        """

    def redeliver(self, positions: Sequence[Position] | None, *, epoch: int | None = None) -> None:
        """Deliver these entries again. If `positions` is None, deliver again everything pending at this consumer.

        On Exclusive and Failover, the active consumer gets everything unacked again, even if it names positions.
        Requests of other consumers are ignored there. Non-persistent topics ignore every request.

        An `epoch` higher than the consumer epoch replaces it.
        """

    def redeliver_at(self, positions: Sequence[Position], due_ms: int) -> None:
        """Deliver these entries again at `due_ms` (ms since 1970), unless they are acked before then.

        On Exclusive and Failover, everything unacked is then delivered again.
        """

    def filter_due(self, due_filter: DueFilter) -> None:
        """Ask `due_filter` which entries to redeliver, whenever entries are overdue."""

    def redelivery_count(self, position: Position) -> int:
        """Return the redelivery count of an entry, always 0 on Exclusive and Failover."""

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether this ledger belongs to the consumer's topic or partition and is not trimmed."""

    def has_pending(self, position: Position) -> bool:
        """Return whether this consumer was sent the entry and has not acked all of it."""

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """Read an entry again, and the bitset of its unacked messages (None = all). Raises BrokerError."""

    def acker(self) -> Callable[[Sequence[AckRequest]], None]:
        """Return a function that acks for this consumer, even after the consumer has left.

        The function does nothing once a reset, a seek or an undo has moved the cursor.
        """

    def letter_written(self, position: Position, topic: str, *, is_retry: bool) -> None:
        """Record in the delivery story that the door copied an entry to this dead letter or retry letter topic."""

    async def seek_position(self, position: Position, remaining: int | None) -> None:
        """Move the cursor so that the entry at `position` comes next. Raises BrokerError.

        In `remaining`, bit i is set if message i of the entry is to be delivered; None = all. The broker first closes
        the subscription's consumers, on Failover only the active one and this one. Their clients then subscribe again.
        """

    async def seek_time(self, publish_time_ms: int) -> None:
        """Move the cursor to the first entry appended at or after this time, in ms since 1970. See `seek_position`."""

    async def last_message(self) -> LastMessage:
        """Return the last message that this consumer can get, and the subscription's mark-delete position."""

    async def unsubscribe(self, *, force: bool) -> None:
        """Delete the subscription.

        Raises BrokerError, for example if other consumers are attached and `force` is False.
        """

    def writable_again(self) -> None:
        """Resume delivery, because the peer can receive bytes again."""

    def stop_delivery(self) -> None:
        """Deliver nothing more, because the connection is lost; `detach` follows."""

    def detach(self, cause: DepartureCause = DepartureCause.LOST) -> None:
        """Detach, because the connection is lost or the client has closed the consumer. Safe to repeat."""


class TopicListPort(Protocol):
    """One watched list of topics. `broker.topics.lists.topic_lists.TopicListWatch` implements it."""

    @property
    def is_open(self) -> bool:
        """False once the watch has ended."""

    @property
    def names(self) -> frozenset[str]:
        """The full names of the topics that the pattern chooses now. Partitions are listed instead of their topic."""

    def detach(self) -> None:
        """End the watch. Safe to repeat."""


class StatusPort(Protocol):
    """The broker's readiness, its settings, and its limits on connections."""

    @property
    def connections(self) -> ConnectionLimits:
        """The limits on connections, and how often each limit was reached."""

    @property
    def settings(self) -> BrokerSettings:
        """The settings that the broker read at its start."""

    def is_ready(self) -> tuple[bool, str]:
        """Return whether the broker serves clients, and if not, why."""


class MetricsPort(StatusPort, Protocol):
    """The data for `/metrics` and `/readyz`."""

    def metrics_page(self) -> Iterator[bytes]:
        """Yield Prometheus text in slices, each made in at most about a millisecond."""


class PartitionsPort(Protocol):
    """The partitions of topics."""

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """Return the number of partitions, 0 = not partitioned.

        With `create`, a missing topic is created if policies give it partitions. Raises BrokerError.
        """


class LookupPort(StatusPort, PartitionsPort, Protocol):
    """The existing topics, and the URLs of the broker that serves them."""

    def service_urls(self, topic: TopicName) -> tuple[str, str]:
        """Return the URLs of the broker that serves a topic: without TLS and with it."""

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's topics, with the partitions of a topic instead of the topic itself.

        Raises InvalidTopicName.
        """

    async def watch_topics(
        self,
        namespace: str,
        pattern: TopicPattern,
        on_change: Callable[[frozenset[str], frozenset[str]], None],
    ) -> TopicListPort:
        """Watch the persistent topics that a pattern chooses. `on_change` gets the added and the removed names.

        Raises InvalidTopicName.
        """


class PublishPort(StatusPort, PartitionsPort, Protocol):
    """The interface through which doors open producers."""

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> ProducerPort:
        """Open a producer. Raises BrokerError."""


class SubscribePort(StatusPort, PartitionsPort, Protocol):
    """The interface through which doors attach consumers."""

    @property
    def rates(self) -> Rates:
        """Rates of publishing, delivering and acking, as last measured."""

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> ConsumerPort:
        """Attach a consumer. Raises BrokerError."""


class SchemasPort(Protocol):
    """The schemas of topics."""

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """Return one version of a topic's schema, or the latest if `version` is None.

        Raises BrokerError, for example SchemaNotFound.
        """

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """Return this schema's version, b"" for the type NONE. Store the schema if it is new.

        Raises BrokerError, for example IncompatibleSchema or TopicNotFound.
        """


class PullsPort(StatusPort, PartitionsPort, Protocol):
    """The requests of pull clients."""

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        """Return the answer to a long-poll pull, or the pull itself if it was parked. Raises BrokerError."""

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        """Answer a pull as `pull` does, from memory. Return None if PostgreSQL must be queried. Raises BrokerError."""

    def forget_pull(self, parked: ParkedPull) -> None:
        """Drop a parked pull without an answer. Safe to repeat."""

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """Return the offset that a consumer group committed. Raises BrokerError."""

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Store that a consumer group has consumed everything before `offset`. Return the stored offset.

        `peer` is the client's address without its port. Raises BrokerError.
        """


class ClientPort(LookupPort, PublishPort, SubscribePort, SchemasPort, PullsPort, Protocol):
    """The requests that one client can make. `GuardedBroker` checks each request and passes it on to the broker."""


class AccessPort(Protocol):
    """Authentication and permissions of clients."""

    @property
    def is_on(self) -> bool:
        """Whether the broker asks clients for credentials."""

    @property
    def takes_tokens(self) -> bool:
        """Whether a client may prove its identity with a token."""

    @property
    def takes_passwords(self) -> bool:
        """Whether a client may prove its identity with a password."""

    def authenticate_now(self, credentials: Credentials, now_ms: int) -> Principal | None:
        """Return the client that these credentials identify; None if only `authenticate` can check them.

        Raises AuthenticationFailed. Raises NotAuthorized if a proxy names no client or another proxy, or if a client
        that is not a proxy names another role.
        """

    async def authenticate(self, credentials: Credentials, now_ms: int) -> Principal:
        """Do what `authenticate_now` does, and check a password or fetch an issuer's keys if necessary."""

    def check_current(self, principal: Principal, now_ms: int) -> None:
        """Check credentials again. Raises AuthenticationFailed if they have expired or were revoked."""

    def check_revoked(self, principal: Principal) -> None:
        """Check that the credentials are still accepted.

        Raises AuthenticationFailed if somebody has revoked the client's token, or changed or removed its password.
        """

    def check(self, principal: Principal, action: Action, subject: Subject) -> None:
        """Check a permission. Raises NotAuthorized unless the client may take this action."""

    async def load(self) -> None:
        """Read the stored permissions and revocations into memory. Raises psycopg.Error."""

    def watch(self, recheck: Callable[[], None]) -> Callable[[], None]:
        """Call `recheck` after each change of permissions, revocations or passwords.

        Return a function that ends the watch.
        """


class CredentialsPort(Protocol):
    """The parts of the broker that authenticate a client."""

    @property
    def access(self) -> AccessPort:
        """Authentication and permissions of clients."""

    @property
    def connections(self) -> ConnectionLimits:
        """The limits on connections, and the rates of clients."""

    @property
    def clock(self) -> Clock:
        """The broker's clock, which decides whether credentials have expired."""


class BrokerPort(MetricsPort, ClientPort, CredentialsPort, Protocol):
    """The broker, as every door except the admin API uses it."""

    @property
    def refused_requests(self) -> Counter[str]:
        """How many requests of binary connections the broker refused since its start, by kind."""


class AdminPort(LookupPort, PublishPort, CredentialsPort, Protocol):
    """The parts of the broker that the admin REST API uses.

    Most changes that the admin API makes are acts, which it requests through `own_requests`.
    """

    @property
    def own_requests(self) -> OwnRequests:
        """Requests for acts from inside this process."""

    @property
    def topics(self) -> Topics:
        """The persistent topics."""

    @property
    def non_persistent(self) -> NonPersistentTopics:
        """The non-persistent topics in use."""

    @property
    def policies(self) -> PolicyChanges:
        """The policy documents, and the policies in force."""

    @property
    def schemas(self) -> Schemas:
        """The schema registry."""

    @property
    def rates(self) -> Rates:
        """Rates of publishing, delivering and acking, as last measured."""

    @property
    def pool(self) -> ConnectionPool:
        """Connections to PostgreSQL, for data that is not in memory."""
