"""Handle clients' requests for topics.

An invalid request fails before its topic is created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from broker.core.client_identity import INTERNAL_FACE
from broker.core.errors import NotAllowed, PersistenceFailed
from broker.core.producers.access import OUTBOX_PRODUCER
from broker.core.schemas.schema import SchemaType
from broker.core.subscription.types import SubscriptionType, check_attach, check_name, check_storable
from broker.core.topic_name import TopicName, parse_namespace
from broker.producers.schemas import check_schema
from broker.storage.away import is_away
from broker.storage.pool import first_line, repeat_until_done
from broker.storage.topics import topics as store

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.schemas.schema import SchemaDefinition
    from broker.producers.producer import Producer
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.producers.schemas import Schemas
    from broker.storage.pool import ConnectionPool
    from broker.subscription.consumer import Consumer
    from broker.subscription.requests import ConsumerSink, SubscribeRequest
    from broker.topics.non_persistent.topic import NonPersistentTopic
    from broker.topics.non_persistent.topics import NonPersistentTopics
    from broker.topics.topic import Topic
    from broker.topics.topics import Topics

__all__ = ["ClientRequests"]

logger = logging.getLogger(__name__)

MAX_PROPERTIES_BYTES: Final = 64 * 1024


class ClientRequests:
    """Finds or creates the topic of a request, and passes the request to the topic."""

    def __init__(
        self,
        topics: Topics,
        non_persistent: NonPersistentTopics,
        schemas: Schemas,
        pool: ConnectionPool,
        require_ready: Callable[[], None],
    ) -> None:
        self._topics = topics
        self._non_persistent = non_persistent
        self._schemas = schemas
        self._pool = pool
        self._require_ready = require_ready

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """Return the number of partitions of a topic, or 0 if the topic is not partitioned."""
        return await self._topics.partition_count(topic, create=create)

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's topics.

        For a partitioned topic, the list has the partitions but not the topic itself. Raises InvalidTopicName if
        `namespace` is not a valid name.
        """
        tenant, name = parse_namespace(namespace)
        stored = await repeat_until_done(
            self._pool, lambda c: store.names_in_namespace(c, tenant, name), what="listing topics"
        )
        return stored + [
            each.name.full for each in self._non_persistent.all() if each.name.namespace_name == namespace
        ]

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> Producer:
        """Attach a producer. Raises BrokerError if the request is refused."""
        _check_producer(request, identity)
        with _refusal_answered(f"opening a producer on {request.topic}"):
            topic = await self._topic(request.topic, create=request.create_topic)
            return await topic.open_producer(request, identity, sink)

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer. Raises BrokerError if the request is refused."""
        _check_subscribe(request)
        with _refusal_answered(f"subscribing to {request.topic}"):
            topic = await self._topic(request.topic, create=request.create_topic)
            return await topic.subscribe(request, identity, sink)

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """Return a topic's schema and the schema's version. If `version` is None, return the latest schema.

        Raises IncompatibleSchema if `version` is malformed. Also raises SchemaNotFound and ServiceNotReady.
        """
        self._require_ready()
        return await self._schemas.get(topic.base, version)

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """Return the schema's version, or b"" for the type NONE. If the schema is new, store it first.

        Raises IncompatibleSchema, TopicNotFound and ServiceNotReady.
        """
        if schema.type is not SchemaType.NONE:
            check_schema(schema)
        partitions = await self.partition_count(TopicName.parse(topic.base), create=False)
        one = topic.with_partition(0) if partitions else topic
        policies = (await self._topic(one, create=False)).policies
        return await self._schemas.of_producer(topic.base, schema, policies)

    async def _topic(self, name: TopicName, *, create: bool) -> Topic | NonPersistentTopic:
        if name.domain == "persistent":
            return await self._topics.open(name, create=create)
        self._require_ready()
        return await self._non_persistent.topic(name, create=create)


@contextmanager
def _refusal_answered(what: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if is_away(error):
            raise
        logger.error("%s: the database refused it: %s", what, first_line(error))
        raise PersistenceFailed(f"the database refused it: {first_line(error)}") from error


def _check_properties(whose: str, properties: Mapping[str, str]) -> None:
    size_bytes = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if size_bytes > MAX_PROPERTIES_BYTES:
        raise NotAllowed(
            f"the properties of the {whose} have {size_bytes} bytes, the limit is {MAX_PROPERTIES_BYTES}"
        )


def _check_producer(request: ProducerRequest, identity: ClientIdentity) -> None:
    check_storable("producer", request.name or "")
    _check_properties("producer", request.properties)
    if request.name == OUTBOX_PRODUCER and identity.face != INTERNAL_FACE:
        raise NotAllowed(
            f"producer name {OUTBOX_PRODUCER} is reserved for messages that Django code publishes: choose another"
        )
    if request.initial_subscription:
        check_name(request.initial_subscription)
    if request.schema is not None and request.schema.type is not SchemaType.NONE:
        check_schema(request.schema)


def _check_subscribe(request: SubscribeRequest) -> None:
    check_storable("consumer", request.consumer_name)
    _check_properties("consumer", request.properties)
    _check_properties("subscription", request.subscription_properties)
    check_name(request.subscription)
    check_attach(
        request.type,
        current=None,
        consumers=0,
        read_compacted=request.read_compacted,
        persistent=request.topic.domain == "persistent",
    )
    if request.type is SubscriptionType.KEY_SHARED or (
        request.type is SubscriptionType.EXCLUSIVE and request.key_shared.ranges
    ):
        request.key_shared.check()
    if request.schema is not None and request.schema.type not in (SchemaType.NONE, SchemaType.AUTO_CONSUME):
        check_schema(request.schema)
