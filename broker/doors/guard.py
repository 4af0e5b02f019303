"""Check the permission that each client request needs, then pass the request on to the broker."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from broker.core.access.permissions import Action, Subject
from broker.core.errors import AuthenticationFailed, BrokerError
from broker.core.topic_name import TopicName, parse_namespace

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.core.access.principal import Principal
    from broker.core.client_identity import ClientIdentity
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.topic_pattern import TopicPattern
    from broker.doors.ports import BrokerPort, ConsumerPort, ProducerPort, TopicListPort
    from broker.listening.connection_limits import ConnectionLimits
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.pulls.values import ParkedPull, PullAnswer, PullAsk
    from broker.subscription.requests import ConsumerSink, SubscribeRequest
    from broker.topics.rates import Rates

__all__ = ["GuardedBroker"]

_Open: TypeAlias = (
    "weakref.WeakKeyDictionary[ProducerPort | ConsumerPort | TopicListPort, tuple[Action, Subject]]"
)


class GuardedBroker:
    """The broker's methods for one client, with permission checks.

    A request raises NotAuthorized if the client lacks the permission. A request raises AuthenticationFailed if
    `principal` is None. Sends, acks and seeks are not checked.
    """

    __slots__ = ("_broker", "_open", "principal")

    def __init__(self, broker: BrokerPort, principal: Principal | None = None) -> None:
        self.principal = principal
        self._broker = broker
        self._open: _Open | None = None

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings."""
        return self._broker.settings

    @property
    def connections(self) -> ConnectionLimits:
        """The limits on connections."""
        return self._broker.connections

    @property
    def rates(self) -> Rates:
        """The latest measured rates."""
        return self._broker.rates

    def is_ready(self) -> tuple[bool, str]:
        """Return whether the broker serves clients. If it does not, also return the reason."""
        return self._broker.is_ready()

    def check_topic(self, action: Action, topic: TopicName, subscription: str = "") -> None:
        """Check that the client may take this action. Raises NotAuthorized or AuthenticationFailed."""
        if self.is_locked():
            self._check(action, Subject.of_topic(topic, subscription))

    def recheck(self) -> None:
        """Check the client again, because permissions or passwords may have changed, or a token may have been revoked.

        Raises AuthenticationFailed for revoked credentials. Raises NotAuthorized if the client no longer has the
        permission for an open producer, consumer or watch.
        """
        if self.principal is not None:
            self._broker.access.check_revoked(self.principal)
        for client, (action, subject) in list(self._open.items()) if self._open is not None else ():
            if client.is_open:
                self._check(action, subject)

    def is_locked(self) -> bool:
        """Return whether requests are checked."""
        return self.principal is None or self._broker.access.is_on

    def _check(self, action: Action, subject: Subject) -> None:
        if self.principal is None:
            raise AuthenticationFailed("the client has not authenticated")
        self._broker.access.check(self.principal, action, subject)

    def _opened(
        self, client: ProducerPort | ConsumerPort | TopicListPort, action: Action, subject: Subject
    ) -> None:
        if not self.is_locked():
            return
        try:
            # The permission may have been revoked since the first check.
            self._check(action, subject)
        except BrokerError:
            client.detach()
            raise
        if self._open is None:
            self._open = weakref.WeakKeyDictionary()
        self._open[client] = (action, subject)

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """Return the number of partitions, or 0 if the topic is not partitioned."""
        self.check_topic(Action.LOOK_UP, topic)
        return await self._broker.partition_count(topic, create=create)

    def service_urls(self, topic: TopicName) -> tuple[str, str]:
        """Return the plain URL and the TLS URL of the topic's broker."""
        self.check_topic(Action.LOOK_UP, topic)
        return self._broker.service_urls(topic)

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Return the full names of the namespace's topics. Raises InvalidTopicName."""
        if self.is_locked():
            self._check(Action.LOOK_UP, Subject.of_namespace(*parse_namespace(namespace)))
        return await self._broker.topics_of_namespace(namespace)

    async def watch_topics(
        self,
        namespace: str,
        pattern: TopicPattern,
        on_change: Callable[[frozenset[str], frozenset[str]], None],
    ) -> TopicListPort:
        """Watch the topics that match a pattern. Raises InvalidTopicName."""
        subject = Subject.of_namespace(*parse_namespace(namespace))
        if self.is_locked():
            self._check(Action.LOOK_UP, subject)
        watch = await self._broker.watch_topics(namespace, pattern, on_change)
        self._opened(watch, Action.LOOK_UP, subject)
        return watch

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> ProducerPort:
        """Open a producer."""
        self.check_topic(Action.PRODUCE, request.topic)
        if request.initial_subscription is not None:
            self.check_topic(Action.CONSUME, request.topic, request.initial_subscription)
        producer = await self._broker.open_producer(request, identity, sink)
        self._opened(producer, Action.PRODUCE, Subject.of_topic(request.topic))
        return producer

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> ConsumerPort:
        """Attach a consumer."""
        self.check_topic(Action.CONSUME, request.topic, request.subscription)
        consumer = await self._broker.subscribe(request, identity, sink)
        self._opened(consumer, Action.CONSUME, Subject.of_topic(request.topic, request.subscription))
        return consumer

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """Return one version of the topic's schema, or the latest version if `version` is None."""
        self.check_topic(Action.LOOK_UP, topic)
        return await self._broker.get_schema(topic, version)

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """Return the version of this schema. Store the schema if it is new."""
        self.check_topic(Action.PRODUCE, topic)
        return await self._broker.get_or_create_schema(topic, schema)

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        """Answer a pull, or park the pull until messages arrive."""
        self.check_topic(Action.CONSUME, ask.topic)
        return await self._broker.pull(ask)

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        """Answer a pull from memory, or park the pull. Return None if PostgreSQL must be queried."""
        self.check_topic(Action.CONSUME, ask.topic)
        return self._broker.pull_now(ask)

    def check_answer(self, topic: TopicName) -> None:
        """Check the client again before a parked pull is answered.

        Raises AuthenticationFailed for expired or revoked credentials, and NotAuthorized for a missing permission.
        """
        if self.principal is not None and self.is_locked():
            self._broker.access.check_current(self.principal, self._broker.clock.now_ms())
        self.check_topic(Action.CONSUME, topic)

    def forget_pull(self, parked: ParkedPull) -> None:
        """Drop a parked pull. Safe to repeat."""
        self._broker.forget_pull(parked)

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """Return the offset that the consumer group committed."""
        self.check_topic(Action.CONSUME, topic, subscription)
        return await self._broker.committed_offset(topic, queue, subscription)

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Store the consumer group's offset, and return the stored offset."""
        self.check_topic(Action.CONSUME, topic, subscription)
        return await self._broker.commit_offset(topic, queue, subscription, offset, peer)
