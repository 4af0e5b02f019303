"""One broker process: starts and stops the parts, finds topics, answers what is asked of the whole."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.acts.runner import ActRunner
from broker.clock import Clock, SystemClock
from broker.core.errors import NotAllowed, ServiceNotReady, TopicNotFound
from broker.core.schemas.schema import SchemaType
from broker.core.topic_name import TopicName, parse_namespace
from broker.deadlines import Deadlines
from broker.instruments import Instruments
from broker.log.cache import EntryCache
from broker.log.epochs import Epochs
from broker.log.segments import Segments
from broker.log.writer import Writer
from broker.plugins import load_plugins
from broker.process.metrics import Metrics
from broker.process.ownership import Ownership
from broker.process.reports.reporter import Reporter
from broker.process.services import Services
from broker.producers.publish_budget import PublishBudget
from broker.producers.schemas import Schemas, check_schema
from broker.pulls.offsets import commit_offset, committed_offset
from broker.pulls.parked import Holds
from broker.storage.pool import ConnectionPool, repeat_until_done
from broker.storage.topics import topics as store
from broker.subscription.dispatch.interception import Interception
from broker.subscription.flusher import Flusher
from broker.topics.auto_creation import (
    make_default_namespace,
    make_topic,
    partitions_of_new,
    topic_not_found,
)
from broker.topics.gates import TopicGates
from broker.topics.loading import load_topic
from broker.topics.non_persistent.topics import NonPersistentTopics
from broker.topics.request_checks import check_producer, check_subscribe
from broker.topics.topic import Topic
from broker.upkeep.housekeeping import Housekeeping
from broker.upkeep.lifetime import Lifetime
from broker.upkeep.outbox import OutboxMover
from broker.upkeep.policy_rounds import PolicyRounds
from broker.upkeep.tick import named_in

if TYPE_CHECKING:
    from broker.conf import BrokerSettings
    from broker.core.client_identity import ClientIdentity
    from broker.core.schemas.schema import SchemaDefinition
    from broker.producers.producer import Producer
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.pulls.values import HeldPull, PullAnswer, PullAsk
    from broker.subscription.consumer import Consumer
    from broker.subscription.requests import ConsumerSink, SubscribeRequest
    from broker.topics.non_persistent.topic import NonPersistentTopic

__all__ = ["Broker"]

log = logging.getLogger(__name__)

POOL_CONNECTIONS = 4
_STOP_DRAIN_S = 3.0


class Broker:
    """Owns every background task. All calls from the event loop that ran `start`."""

    def __init__(
        self, settings: BrokerSettings, conninfo: str, *, read_role: str = "", clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self.settings = settings
        self.topics: dict[str, Topic] = {}
        self.refused_requests: Counter[str] = Counter()  # of binary connections, by kind
        self.gates = TopicGates()
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self._is_stopping = False
        services = self.services = Services()
        services.settings = settings
        services.clock = clock
        services.pool = pool = ConnectionPool(conninfo, name="work", size=POOL_CONNECTIONS)
        services.cache = EntryCache(settings.tail_cache_bytes)
        services.segments = Segments(pool, settings, clock, read_role=read_role)
        services.epochs = Epochs(pool)
        services.ownership = Ownership(
            conninfo,
            settings=settings,
            epochs=services.epochs,
            logs=lambda: [topic.log for topic in self.topics.values()],
            on_notify=self._on_notify,
        )
        services.writer = Writer(
            conninfo, clock=clock, segments=services.segments, epochs=services.epochs, pool=pool
        )
        services.flusher = Flusher(ConnectionPool(conninfo, name="flusher", size=1), services.epochs, clock)
        services.deadlines = Deadlines(clock, wheel_enabled=settings.wheel_enabled)
        services.instruments = Instruments()
        services.publishes = PublishBudget(settings.max_unanswered_publish_bytes)
        services.holds = Holds(services, self.topics.get)
        services.schemas = Schemas(pool)
        services.reporter = Reporter(ConnectionPool(conninfo, name="reporter", size=1), clock)
        services.entry_filters = load_plugins("VELA_ENTRY_FILTERS", settings.entry_filters, "verdict")
        interceptors = load_plugins("VELA_INTERCEPTORS", settings.interceptors, "sending")
        services.interception = Interception(interceptors) if interceptors else None
        services.forget_topic = self._forget_topic
        services.ownership.on_resumed = self._resumed
        self.non_persistent = NonPersistentTopics(services)
        self._metrics = Metrics(self)
        self.acts = ActRunner(self, pool)
        self.outbox = OutboxMover(self, pool)
        self.policy_rounds = PolicyRounds(self)
        self._housekeeping = Housekeeping(
            services, lambda: list(self.topics.values()), (self.policy_rounds.turn,)
        )
        self.lifetime = Lifetime(services, lambda: list(self.topics.values()), self._open_by_name)

    async def start(self) -> None:
        """Take the lock and begin. Raises BrokerAlreadyRuns, psycopg.OperationalError."""
        services = self.services
        await services.ownership.acquire()
        await make_default_namespace(services)
        await services.segments.start()
        await services.reporter.start()
        services.writer.start()
        services.flusher.start()
        self.acts.start()
        self.outbox.start()
        self._housekeeping.start()
        self.lifetime.start()

    async def stop(self) -> None:
        """Let clients go in order: receipts first, then cursors, then connections. Within about 5 s."""
        self._is_stopping = True
        services = self.services
        await self._housekeeping.stop()
        self.policy_rounds.stop()
        await self.lifetime.stop()
        await self.acts.stop()
        await self.outbox.stop()
        services.deadlines.stop()
        services.holds.stop()
        try:
            await asyncio.wait_for(services.writer.drain(), timeout=_STOP_DRAIN_S)
        except TimeoutError:
            log.warning("stopping with sends that got no receipt; their producers send them again")
        self.non_persistent.close()
        for topic in list(self.topics.values()):
            topic.log.close()
        await services.writer.stop()
        for loading in list(self._loading.values()):
            loading.cancel()
        await services.flusher.stop()
        await services.reporter.stop()
        await services.stop_tasks()
        await services.ownership.release()
        await services.pool.close()

    def is_ready(self) -> tuple[bool, str]:
        """Whether clients are served now, and if not, why."""
        if self._is_stopping:
            return False, "the broker is stopping"
        if not self.services.ownership.is_held:
            return False, "the broker lock is not held: the database is away or another broker took over"
        return True, ""

    def metrics_page(self) -> Iterator[bytes]:
        """The page /metrics in slices, each of which takes about a millisecond to make."""
        return self._metrics.page()

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """How many partitions a topic has; 0 = it is not partitioned. Raises TopicNotFound unless it may be made.

        With `create` a topic that will have partitions is made here; any other, by whoever connects to it.
        """
        self._require_ready()
        row = await repeat_until_done(
            self.services.pool, lambda c: store.find_topic(c, topic), what="finding a topic"
        )
        if row is not None:
            return row.partitions
        if topic.domain != "persistent":
            return 0  # nothing of it is stored: it is made when somebody connects
        if not create:
            raise topic_not_found(topic)
        partitions = await partitions_of_new(self.services, topic)
        if partitions:
            await make_topic(self.services, topic, partitions)
        return partitions

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Full names of its topics; a partitioned one appears as its partitions. Raises InvalidTopicName."""
        tenant, name = parse_namespace(namespace)
        stored = await repeat_until_done(
            self.services.pool, lambda c: store.names_in_namespace(c, tenant, name), what="listing topics"
        )
        return stored + [
            each.name.full for each in self.non_persistent.all() if each.name.namespace_name == namespace
        ]

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> Producer:
        """Attach a producer. Raises BrokerError (protocol 3.5)."""
        check_producer(request, identity)
        topic = await self._any_topic(request.topic, create=request.create_topic)
        return await topic.open_producer(request, identity, sink)

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer. Raises BrokerError (protocol 3.7)."""
        check_subscribe(request)
        topic = await self._any_topic(request.topic, create=request.create_topic)
        return await topic.subscribe(request, identity, sink)

    async def pull(self, ask: PullAsk) -> PullAnswer | HeldPull:
        """Answer a long-poll pull or hold it. Raises TopicNotFound (also for a queue it has not), BrokerError."""
        return await self.services.holds.pull(await self._queue(ask.topic, ask.queue), ask)

    def pull_now(self, ask: PullAsk) -> PullAnswer | HeldPull | None:
        """The same where topic and messages are in memory, which is where waiters pull; else None, nothing done."""
        topic = self._queue_in_memory(ask.topic, ask.queue)
        return None if topic is None else self.services.holds.pull_now(topic, ask)

    def forget_pull(self, held: HeldPull) -> None:
        """Whoever waited for a held pull is gone. Safe to repeat."""
        self.services.holds.forget(held)

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """How far a consumer group says it is. Raises SubscriptionNotFound, TopicNotFound."""
        return await committed_offset(await self._queue(topic, queue), subscription)

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Store that everything before `offset` is consumed and return the offset kept; durable when this returns.

        `peer` is the client's address without its port, for the act log. Raises SubscriptionBusy, NotAllowed,
        TopicNotFound. Safe to repeat.
        """
        return await commit_offset(await self._queue(topic, queue), subscription, offset, peer)

    async def _queue(self, topic: TopicName, queue: int) -> Topic:
        """A queue is a partition, or the whole of a topic that has none. No query while it is in memory."""
        known = self._queue_in_memory(topic, queue)
        if known is not None:
            return known
        partitions = await self.partition_count(topic, create=False)
        if queue >= max(1, partitions):
            raise TopicNotFound(f"topic {topic} has {max(1, partitions)} queues; there is no queue {queue}")
        return await self.topic(topic.with_partition(queue) if partitions else topic, create=False)

    def _queue_in_memory(self, topic: TopicName, queue: int) -> Topic | None:
        known = self.topics.get(f"{topic.full}-partition-{queue}")
        if known is None and not queue:
            known = self.topics.get(topic.full)
        return known if known is not None and known.is_open and self.is_ready()[0] else None

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """A version of a topic's schema, None = the latest. Raises SchemaNotFound, IncompatibleSchema."""
        self._require_ready()
        return await self.services.schemas.get(topic.base, version)

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """Return the version of this schema, stored when it is new and may be; b"" for the type NONE.

        Raises IncompatibleSchema, TopicNotFound.
        """
        if schema.type is not SchemaType.NONE:
            check_schema(schema)
        partitions = await self.partition_count(TopicName.parse(topic.base), create=False)
        one = topic.with_partition(0) if partitions else topic
        policies = (await self._any_topic(one, create=False)).policies
        return await self.services.schemas.of_producer(topic.base, schema, policies)

    async def _any_topic(self, name: TopicName, *, create: bool) -> Topic | NonPersistentTopic:
        if name.domain == "persistent":
            return await self.topic(name, create=create)
        self._require_ready()
        return await self.non_persistent.topic(name, create=create)

    async def topic(self, name: TopicName, *, create: bool) -> Topic:
        """The topic in memory, loaded or made when need be; concurrent callers share one load.

        Raises TopicNotFound, NotAllowed (a partitioned parent holds no messages), ServiceNotReady.
        """
        await self.gates.passed(name.full)
        self._require_ready()
        known = self.topics.get(name.full)
        if known is not None and known.is_open:
            known.asked_ms = self.services.clock.now_ms()
            return known
        loading = self._loading.get(name.full)
        if loading is None:
            loading = self._loading[name.full] = asyncio.create_task(self._load(name, create=create))
            loading.add_done_callback(lambda _: self._loading.pop(name.full, None))
        return await asyncio.shield(loading)

    async def loads_done(self) -> None:
        """Wait for the loads that are under way now, whatever comes of them."""
        under_way = list(self._loading.values())
        await asyncio.gather(*(asyncio.shield(task) for task in under_way), return_exceptions=True)

    async def _open_by_name(self, full_name: str) -> Topic:
        return await self.topic(TopicName.parse(full_name), create=False)

    async def _load(self, name: TopicName, *, create: bool) -> Topic:
        if name.domain != "persistent":
            raise NotAllowed(f"{name} is not persistent: it has no log")
        pool = self.services.pool
        row = await repeat_until_done(pool, lambda c: store.find_topic(c, name), what="finding a topic")
        if row is None:
            if not create:
                raise topic_not_found(name)
            await make_topic(self.services, name, await partitions_of_new(self.services, name))
            row = await repeat_until_done(pool, lambda c: store.find_topic(c, name), what="finding a topic")
        if row is None:
            raise ServiceNotReady(f"topic {name} was removed while it was being opened; try again")
        if row.partitions:
            raise NotAllowed(
                f"topic {name} has {row.partitions} partitions; use {name}-partition-0 and so on"
            )
        found = row
        topic = await load_topic(name, found, self.services)
        self.topics[name.full] = topic
        return topic

    def _forget_topic(self, topic: Topic) -> None:
        if self.topics.get(topic.name.full) is topic:
            del self.topics[topic.name.full]

    def _on_notify(self, channel: str, payload: str) -> None:
        if channel == "vela_act":
            self.acts.wake()
        elif channel == "vela_tick":
            self.services.deadlines.run_due(named_in(payload, self.topics.values()))
        elif channel == "vela_outbox":
            self.outbox.wake()
        elif channel == "vela_policies":
            self.policy_rounds.ask()
        elif channel == "vela_lifetime":
            self.lifetime.wake()

    def _resumed(self) -> None:
        """The lock is held again: what could not be sent meanwhile goes out, deliveries are reported anew."""
        for topic in list(self.topics.values()):
            for subscription in list(topic.subscriptions.values()):
                self.services.reporter.changed(subscription)
                subscription.pump()
        self.acts.wake()

    def _require_ready(self) -> None:
        ready, why_not = self.is_ready()
        if not ready:
            # Without the lock a topic must not even be taken: it would be fenced away from the broker that serves it.
            raise ServiceNotReady(f"{why_not}; connect again")
