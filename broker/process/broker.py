"""One broker process: builds the parts, starts and stops them, and answers what doors ask of the whole."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.acts.kinds.base import ActContext, TopicTools
from broker.acts.runner import ActRunner
from broker.clock import Clock, SystemClock
from broker.core.errors import ServiceNotReady
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
from broker.process.process_metrics import ProcessMetrics
from broker.process.reports.reporter import Reporter
from broker.process.services import Services
from broker.producers.deduplication_keeper import DeduplicationKeeper
from broker.producers.publish_budget import PublishBudget
from broker.producers.schemas import Schemas, check_schema
from broker.pulls.offsets import GroupOffsets
from broker.pulls.parked import ParkedPulls
from broker.pulls.pulls import Pulls
from broker.storage.pool import ConnectionPool, repeat_until_done
from broker.storage.topics import topics as store
from broker.subscription.dispatch.interception import Interception
from broker.subscription.flusher import Flusher
from broker.topics.auto_creation import TopicCreation
from broker.topics.ending import Endings
from broker.topics.loading import load_topic
from broker.topics.non_persistent.topics import NonPersistentTopics
from broker.topics.policies import PolicyChanges, PolicyDocuments
from broker.topics.policies_in_force import default_policies
from broker.topics.request_checks import check_producer, check_subscribe
from broker.topics.topics import Topics
from broker.topics.trimming import Trimmer
from broker.topics.truncate import Truncator
from broker.upkeep.disuse import Disuse
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
    from broker.topics.topic import Topic

__all__ = ["Broker"]

logger = logging.getLogger(__name__)

POOL_CONNECTIONS = 4
_STOP_DRAIN_S = 3.0


class Broker:
    """Owns every background task. All calls from the event loop that ran `start`."""

    def __init__(
        self, settings: BrokerSettings, conninfo: str, *, read_role: str = "", clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self.settings = settings
        self.refused_requests: Counter[str] = Counter()  # of binary connections, by kind
        self._is_stopping = False
        services = self.services = Services()
        self.tasks = services.tasks
        services.settings = settings
        services.clock = clock
        services.pool = pool = ConnectionPool(conninfo, name="work", size=POOL_CONNECTIONS)
        services.cache = EntryCache(settings.tail_cache_bytes)
        services.segments = segments = Segments(pool, settings, clock, read_role=read_role)
        services.epochs = epochs = Epochs(pool)
        services.writer = Writer(conninfo, clock=clock, segments=segments, epochs=epochs, pool=pool)
        services.flusher = Flusher(ConnectionPool(conninfo, name="flusher", size=1), epochs, clock)
        services.deadlines = Deadlines(clock, wheel_enabled=settings.wheel_enabled)
        services.instruments = Instruments()
        services.publishes = PublishBudget(settings.max_unanswered_publish_bytes)
        services.schemas = Schemas(pool)
        services.reporter = Reporter(ConnectionPool(conninfo, name="reporter", size=1), clock)
        services.entry_filters = load_plugins("VELA_ENTRY_FILTERS", settings.entry_filters, "verdict")
        interceptors = load_plugins("VELA_INTERCEPTORS", settings.interceptors, "sending")
        services.interception = Interception(interceptors) if interceptors else None
        services.deduplication = DeduplicationKeeper(
            pool, self.tasks, clock, expiry_ms=settings.deduplication_expiry_ms
        )
        creation = self._creation = TopicCreation(pool, settings)
        topics = self.topics = Topics(
            lambda name, row: load_topic(name, row, services),
            creation,
            pool=pool,
            clock=clock,
            require_ready=self._require_ready,
        )
        services.forget_topic = topics.forget
        services.ownership = Ownership(
            conninfo,
            settings=settings,
            epochs=epochs,
            logs=lambda: [topic.log for topic in topics.all()],
            on_notify=self._on_notify,
        )
        services.ownership.on_resumed = self._resumed
        services.pulls = ParkedPulls(
            topics.loaded.get,
            clock,
            services.deadlines,
            self.tasks,
            max_message_bytes=settings.max_uncompressed_bytes,
            longest_ms=None if settings.long_polling else settings.short_polling_ms,
        )
        offsets = GroupOffsets(services.pulls, pool, services.flusher, services.reporter.changed)
        self._pulls = Pulls(topics, services.pulls, offsets, is_ready=self._serves)
        self.non_persistent = NonPersistentTopics(services)
        self.trimmer = Trimmer(pool, clock)
        self.endings = Endings(
            topics,
            pool=pool,
            token=epochs.token,
            writer=services.writer,
            flusher=services.flusher,
            schemas=services.schemas,
        )
        self.policies = PolicyChanges(PolicyDocuments(pool, settings), topics, self.non_persistent)
        new_context = partial(
            ActContext,
            topics=topics,
            tools=TopicTools(
                creation=creation,
                endings=self.endings,
                truncator=Truncator(self.trimmer, services.flusher),
                trimmer=self.trimmer,
                policies=self.policies,
            ),
            opener=self,
            reports=services.reporter,
            pool=pool,
            clock=clock,
            undo_window_s=settings.undo_window_s,
            max_message_bytes=settings.max_uncompressed_bytes,
        )
        self.acts = ActRunner(
            lambda act: new_context(act=act),
            pool,
            self.tasks,
            is_ready=self._serves,
            expiry_s=settings.act_expiry_s,
        )
        self.outbox = OutboxMover(self, pool, is_ready=self._serves)
        self.policy_rounds = PolicyRounds(
            topics,
            Disuse(
                topics,
                self.endings,
                pool=pool,
                flusher=services.flusher,
                clock=clock,
                defaults=default_policies(settings),
            ),
            clock,
            self.tasks,
            is_ready=self._serves,
            wheel_enabled=settings.wheel_enabled,
        )
        self._housekeeping = Housekeeping(
            topics,
            services.deduplication,
            pool,
            clock,
            (segments.turn, self.policy_rounds.turn),
            may_store=services.may_send,
        )
        self.lifetime = Lifetime(
            topics,
            self.trimmer,
            pool=pool,
            segments=segments,
            epochs=epochs,
            clock=clock,
            settings=settings,
            may_store=services.may_send,
        )
        services.instruments.registry.register(
            ProcessMetrics(
                topics=topics,
                lifetime=self.lifetime,
                outbox=self.outbox,
                pulls=services.pulls,
                writer=services.writer,
                publishes=services.publishes,
                cache=services.cache,
                refused_requests=self.refused_requests,
                is_ready=self._serves,
            )
        )
        self._metrics = Metrics(topics, self.non_persistent, services.instruments.registry)

    async def start(self) -> None:
        """Take the lock and begin. Raises BrokerAlreadyRuns, psycopg.OperationalError."""
        services = self.services
        await services.ownership.acquire()
        await self._creation.make_default_namespace()
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
        services.pulls.stop()
        try:
            await asyncio.wait_for(services.writer.drain(), timeout=_STOP_DRAIN_S)
        except TimeoutError:
            logger.warning("stopping with sends that got no receipt; their producers send them again")
        self.non_persistent.close()
        for topic in self.topics.all():
            topic.log.close()
        await services.writer.stop()
        self.topics.cancel_loads()
        await services.flusher.stop()
        await services.reporter.stop()
        await self.tasks.stop()
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
        """How many partitions a topic has; 0 = it is not partitioned. Raises TopicNotFound unless it may be made."""
        return await self.topics.partition_count(topic, create=create)

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
        """Attach a producer. Raises BrokerError."""
        check_producer(request, identity)
        topic = await self._any_topic(request.topic, create=request.create_topic)
        return await topic.open_producer(request, identity, sink)

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer. Raises BrokerError."""
        check_subscribe(request)
        topic = await self._any_topic(request.topic, create=request.create_topic)
        return await topic.subscribe(request, identity, sink)

    async def pull(self, ask: PullAsk) -> PullAnswer | HeldPull:
        """See `Pulls.pull`."""
        return await self._pulls.pull(ask)

    def pull_now(self, ask: PullAsk) -> PullAnswer | HeldPull | None:
        """See `Pulls.pull_now`."""
        return self._pulls.pull_now(ask)

    def forget_pull(self, held: HeldPull) -> None:
        """See `Pulls.forget`."""
        self._pulls.forget(held)

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """See `Pulls.committed_offset`."""
        return await self._pulls.committed_offset(topic, queue, subscription)

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """See `Pulls.commit_offset`."""
        return await self._pulls.commit_offset(topic, queue, subscription, offset, peer)

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
            return await self.topics.open(name, create=create)
        self._require_ready()
        return await self.non_persistent.topic(name, create=create)

    def _on_notify(self, channel: str, payload: str) -> None:
        if channel == "vela_act":
            self.acts.wake()
        elif channel == "vela_tick":
            self.services.deadlines.run_due(named_in(payload, self.topics.all()))
        elif channel == "vela_outbox":
            self.outbox.wake()
        elif channel == "vela_policies":
            self.policy_rounds.ask()
        elif channel == "vela_lifetime":
            self.lifetime.wake()

    def _resumed(self) -> None:
        """The lock is held again: what could not be sent meanwhile goes out, deliveries are reported anew."""
        for topic in self.topics.all():
            for subscription in list(topic.subscriptions.values()):
                self.services.reporter.changed(subscription)
                subscription.pump()
        self.acts.wake()

    def _serves(self) -> bool:
        return self.is_ready()[0]

    def _require_ready(self) -> None:
        ready, why_not = self.is_ready()
        if not ready:
            # Without the lock a topic must not even be taken: it would be fenced away from the broker that serves it.
            raise ServiceNotReady(f"{why_not}; connect again")
