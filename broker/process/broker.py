"""One broker process.

This file is long because it creates, starts and stops all parts of the broker.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.access.access import Access
from broker.acts.kinds.base import ActContext, TopicTools
from broker.acts.own_requests import OwnRequests
from broker.acts.runner import ActRunner
from broker.clock import Clock, SystemClock
from broker.core.errors import ServiceNotReady
from broker.core.subscription.story_rows import StoryBuffer
from broker.core.topic_name import TopicName
from broker.deadlines import Deadlines
from broker.instruments import Instruments
from broker.listening.connection_limits import ConnectionLimits
from broker.log.cache import EntryCache
from broker.log.epochs import Epochs
from broker.log.places.file import FileReads
from broker.log.segments import Segments
from broker.log.writer import Writer
from broker.plugins import load_plugins
from broker.process.access_metrics import AccessMetrics
from broker.process.connection_metrics import ConnectionMetrics
from broker.process.disk_metrics import DiskMetrics
from broker.process.heartbeat import Heartbeat
from broker.process.metrics import Metrics
from broker.process.ownership import Ownership
from broker.process.process_metrics import ProcessMetrics
from broker.process.reports.parked import ParkedReport
from broker.process.reports.reporter import Reporter
from broker.producers.deduplication_keeper import DeduplicationKeeper
from broker.producers.publish_budget import PublishBudget
from broker.producers.schemas import Schemas
from broker.pulls.offsets import GroupOffsets
from broker.pulls.parked import ParkedPulls
from broker.pulls.pulls import Pulls
from broker.storage.pool import ConnectionPool, repeat_until_done
from broker.storage.topics.topics import names_in_namespace
from broker.subscription.collaborators import Storing, Surroundings
from broker.subscription.interception import Interception
from broker.subscription.settings import SubscriptionSettings
from broker.subscription.storing.flusher import Flusher
from broker.subscription.subscription import Subscription
from broker.tasks import BackgroundTasks
from broker.topics.auto_creation import TopicCreation
from broker.topics.client_requests import ClientRequests
from broker.topics.compaction.compactor import Compactor
from broker.topics.ending import Endings
from broker.topics.lists.topic_lists import TopicLists, TopicListWatch
from broker.topics.loading import TopicLoader
from broker.topics.non_persistent.topic import NonPersistentTopic
from broker.topics.non_persistent.topics import NonPersistentTopics
from broker.topics.policies import PolicyChanges, PolicyDocuments
from broker.topics.policies_in_force import default_policies
from broker.topics.topic import Topic
from broker.topics.topic_subscriptions import NewSubscription
from broker.topics.topics import Topics
from broker.topics.trimming import Trimmer
from broker.topics.truncate import Truncator
from broker.tracing.load import load_tracing
from broker.upkeep.compaction import CompactionDuty
from broker.upkeep.disuse import Disuse
from broker.upkeep.housekeeping import Housekeeping
from broker.upkeep.lifetime import Lifetime
from broker.upkeep.offloads import Offloads
from broker.upkeep.outbox import OutboxMover
from broker.upkeep.policy_rounds import PolicyRounds
from broker.upkeep.tick import run_tick

if TYPE_CHECKING:
    from pathlib import Path

    from broker.conf import BrokerSettings
    from broker.core.client_identity import ClientIdentity
    from broker.core.schemas.schema import SchemaDefinition
    from broker.core.topic_pattern import TopicPattern
    from broker.producers.producer import Producer
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.pulls.values import ParkedPull, PullAnswer, PullAsk
    from broker.subscription.consumer import Consumer
    from broker.subscription.requests import ConsumerSink, SubscribeRequest

__all__ = ["Broker"]

logger = logging.getLogger(__name__)

POOL_CONNECTIONS = 4
_STOP_DRAIN_S = 3.0


class Broker:
    """Owns the parts of the broker. Call the methods only from the event loop that ran `start`."""

    def __init__(
        self,
        settings: BrokerSettings,
        conninfo: str,
        *,
        read_role: str = "",
        database_dir: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`database_dir` is the folder of the embedded PostgreSQL."""
        clock = self.clock = clock or SystemClock()
        self.settings = settings
        self._database_dir = database_dir
        self._ticked_ms = clock.now_ms()
        self.refused_requests: Counter[str] = Counter()
        self.connections = ConnectionLimits(settings)
        self.connection_metrics = ConnectionMetrics(self.connections)
        self._is_stopping = False
        self._subscription_settings = SubscriptionSettings.of(settings)
        self._next_key = partial(next, itertools.count(1))
        self.tasks = BackgroundTasks()
        self.pool = pool = ConnectionPool(conninfo, name="work", size=POOL_CONNECTIONS)
        self.access = Access(settings, pool)
        self.cache = EntryCache(settings.tail_cache_bytes)
        self.segments = Segments(pool, settings, clock, read_role=read_role)
        self.files = FileReads(settings.offload_url, cache_bytes=settings.offload_cache_bytes)
        self.epochs = Epochs(pool)
        self.epochs.on_advanced = self._report_anew
        self.writer = Writer(conninfo, clock=clock, segments=self.segments, epochs=self.epochs, pool=pool)
        self.flusher = Flusher(ConnectionPool(conninfo, name="flusher", size=1), self.epochs, clock)
        self.deadlines = Deadlines(clock, wheel_enabled=settings.wheel_enabled)
        self.instruments = Instruments()
        self.tracing = load_tracing(is_on=settings.otel)
        self.publishes = PublishBudget(settings.max_unanswered_publish_bytes)
        self.schemas = Schemas(pool)
        reports = ConnectionPool(conninfo, name="reporter", size=1)
        self.story_buffer = StoryBuffer()
        self.reporter = Reporter(reports, clock, self.story_buffer)
        self.deduplication = DeduplicationKeeper(
            pool, self.tasks, clock, expiry_ms=settings.deduplication_expiry_ms
        )
        interceptors = load_plugins("VELA_INTERCEPTORS", settings.interceptors, "sending")
        self.interception = Interception(interceptors) if interceptors else None
        self.creation = TopicCreation(pool, settings)
        self.ownership = Ownership(
            conninfo,
            settings=settings,
            epochs=self.epochs,
            logs=lambda: [topic.log for topic in self.topics.all()],
            on_notify=self._on_notify,
        )
        self.ownership.on_resumed = self._resumed
        self._heartbeat = Heartbeat(
            ConnectionPool(conninfo, name="heartbeat", size=1),
            may_store=self._owns_topics,
            on_late=self._report_anew,
        )
        self.parked_pulls = ParkedPulls(
            lambda name: self.topics.loaded.get(name),
            clock,
            self.deadlines,
            self.tasks,
            max_message_bytes=settings.max_uncompressed_bytes,
            longest_ms=None if settings.long_polling else settings.short_polling_ms,
        )
        self._parked_report = ParkedReport(
            reports, clock, self.parked_pulls, lambda name: self.topics.loaded.get(name)
        )
        self.topics = self._build_topics()
        self.non_persistent = self._build_non_persistent()
        self.topic_lists = TopicLists(
            lambda tenant, namespace: repeat_until_done(
                pool, lambda c: names_in_namespace(c, tenant, namespace), what="listing topics"
            ),
            self.tasks,
        )
        self._requests = ClientRequests(
            self.topics, self.non_persistent, self.schemas, pool, self._require_ready
        )
        offsets = GroupOffsets(self.parked_pulls, pool, self.reporter.subscription_changed)
        self._pulls = Pulls(self.topics, self.parked_pulls, offsets, is_ready=self._serves)
        self.trimmer = Trimmer(pool, clock)
        self.compactor = Compactor(self.pool, clock, settings)
        self.endings = Endings(
            self.topics,
            pool=pool,
            token=self.epochs.token,
            writer=self.writer,
            flusher=self.flusher,
            schemas=self.schemas,
        )
        self.policies = PolicyChanges(PolicyDocuments(pool, settings), self.topics, self.non_persistent)
        self.acts = self._build_acts()
        self.own_requests = OwnRequests(self.acts)
        self.rates = self.reporter.rates
        self._build_upkeep()
        self._metrics = self._build_metrics()

    def _build_topics(self) -> Topics:
        new_topic = partial(
            Topic,
            pool=self.pool,
            files=self.files,
            epochs=self.epochs,
            writer=self.writer,
            clock=self.clock,
            deadlines=self.deadlines,
            tasks=self.tasks,
            schemas=self.schemas,
            deduplication_keeper=self.deduplication,
            publishes=self.publishes,
            pulls=self.parked_pulls,
            reports=self.reporter,
            publish_latency=self.instruments.publish_latency,
            tracing=self.tracing,
            tick_ms=self.settings.tick_ms,
            next_key=self._next_key,
            on_gone=lambda topic: self.topics.forget(topic),
            new_subscription=self._new_subscription(),
            refuse_old_clients=self.settings.refuse_old_clients,
        )
        loader = TopicLoader(
            new_topic,
            self.deduplication,
            pool=self.pool,
            epochs=self.epochs,
            segments=self.segments,
            cache=self.cache,
            clock=self.clock,
            settings=self.settings,
        )
        return Topics(
            loader.load,
            self.creation,
            pool=self.pool,
            clock=self.clock,
            require_ready=self._require_ready,
        )

    def _build_non_persistent(self) -> NonPersistentTopics:
        new_topic = partial(
            NonPersistentTopic,
            publishes=self.publishes,
            schemas=self.schemas,
            clock=self.clock,
            tasks=self.tasks,
            may_send=self._owns_topics,
            next_key=self._next_key,
            subscription_settings=self._subscription_settings,
        )
        return NonPersistentTopics(new_topic, self.pool, self.settings)

    def _new_subscription(self) -> NewSubscription:
        return partial(
            Subscription,
            storing=Storing(pool=self.pool, epochs=self.epochs, flusher=self.flusher),
            reporter=self.reporter,
            around=Surroundings(
                settings=self._subscription_settings,
                clock=self.clock,
                deadlines=self.deadlines,
                tasks=self.tasks,
                instruments=self.instruments,
                story_buffer=self.story_buffer,
                tracing=self.tracing,
                entry_filters=load_plugins("VELA_ENTRY_FILTERS", self.settings.entry_filters, "verdict"),
                interception=self.interception,
                may_send=self._owns_topics,
                next_key=self._next_key,
            ),
        )

    def _build_acts(self) -> ActRunner:
        new_context = partial(
            ActContext,
            topics=self.topics,
            non_persistent=self.non_persistent,
            tools=TopicTools(
                creation=self.creation,
                endings=self.endings,
                truncator=Truncator(self.trimmer, self.compactor, self.flusher),
                trimmer=self.trimmer,
                compactor=self.compactor,
                policies=self.policies,
                schemas=self.schemas,
            ),
            opener=self._requests,
            reports=self.reporter,
            pool=self.pool,
            clock=self.clock,
            undo_window_s=self.settings.undo_window_s,
            max_message_bytes=self.settings.max_uncompressed_bytes,
            max_published_bytes=self.settings.max_message_bytes,
        )
        return ActRunner(
            lambda act: new_context(act=act),
            self.pool,
            self.tasks,
            is_ready=self._serves,
            expiry_s=self.settings.act_expiry_s,
        )

    def _build_upkeep(self) -> None:
        settings, topics, pool, clock = self.settings, self.topics, self.pool, self.clock
        self.outbox = OutboxMover(self._requests, pool, is_ready=self._serves)
        disuse = Disuse(
            topics,
            self.endings,
            pool=pool,
            clock=clock,
            defaults=default_policies(settings),
        )
        self.policy_rounds = PolicyRounds(
            topics,
            disuse,
            CompactionDuty(self.compactor, topics, pool, clock, self.tasks),
            clock,
            self.tasks,
            is_ready=self._serves,
            wheel_enabled=settings.wheel_enabled,
        )
        self._housekeeping = Housekeeping(
            topics,
            self.deduplication,
            clock,
            (self.segments.turn, self.policy_rounds.turn, self.access.turn),
            may_store=self._owns_topics,
        )
        self.lifetime = Lifetime(
            topics,
            self.trimmer,
            pool=pool,
            segments=self.segments,
            epochs=self.epochs,
            clock=clock,
            settings=settings,
            offloads=Offloads(topics, self.files, self.epochs, pool),
            may_store=self._owns_topics,
        )

    def _build_metrics(self) -> Metrics:
        registry = self.instruments.registry
        registry.register(
            ProcessMetrics(
                topics=self.topics,
                lifetime=self.lifetime,
                outbox=self.outbox,
                pulls=self.parked_pulls,
                writer=self.writer,
                publishes=self.publishes,
                cache=self.cache,
                refused_requests=self.refused_requests,
                is_ready=self._serves,
                tick_age_s=self._tick_age_s,
            )
        )
        registry.register(self.connection_metrics)
        registry.register(AccessMetrics(self.access))
        registry.register(DiskMetrics(self._database_dir))
        return Metrics(
            self.topics,
            self.non_persistent,
            registry,
            self.reporter.standings,
            self.rates,
            has_topics=self.settings.topic_metrics,
        )

    async def start(self) -> None:
        """Take the broker lock and start every part. Raises BrokerAlreadyRuns or psycopg.Error."""
        await self.ownership.acquire()
        try:
            await self._start_parts()
        except asyncio.CancelledError:
            await self._heartbeat.stop()
            await self.ownership.release()
            raise

    async def _start_parts(self) -> None:
        self._heartbeat.start()
        await self.access.load()
        await self.creation.make_default_namespace()
        await self.segments.start()
        await self.reporter.start()
        await self._parked_report.start()
        self.writer.start()
        self.flusher.start()
        self.acts.start()
        self.outbox.start()
        self._housekeeping.start()
        self.lifetime.start()

    async def stop(self) -> None:
        """Send the outstanding receipts, detach all clients, then store the cursors."""
        self._is_stopping = True
        await self._housekeeping.stop()
        self.policy_rounds.stop()
        await self.lifetime.stop()
        await self.acts.stop()
        await self.outbox.stop()
        self.deadlines.stop()
        self.parked_pulls.stop()
        self.access.stop()
        try:
            await asyncio.wait_for(self.writer.drain(), timeout=_STOP_DRAIN_S)
        except TimeoutError:
            logger.warning(
                "stopping before every send has its receipt; the producers will send those messages again"
            )
        self.non_persistent.close()
        for topic in self.topics.all():
            topic.log.close()
        await self.writer.stop()
        self.topics.cancel_loads()
        await self.flusher.stop()
        await self._parked_report.stop()
        await self.reporter.stop()
        await self.tasks.stop()
        await self._heartbeat.stop()
        await self.ownership.release()
        self.files.stop()
        await self.pool.close()
        if self.tracing is not None:
            await self.tracing.stop()

    def is_ready(self) -> tuple[bool, str]:
        """Return whether the broker serves clients now, and if not, the reason."""
        if self._is_stopping:
            return False, "the broker is stopping"
        if not self.ownership.is_held:
            return (
                False,
                "the broker lock is not held: the database is unavailable or another broker took over",
            )
        return True, ""

    def metrics_page(self) -> Iterator[bytes]:
        """Yield the text of the /metrics page in pieces."""
        return self._metrics.page()

    async def partition_count(self, topic: TopicName, *, create: bool) -> int:
        """Return the number of a topic's partitions."""
        return await self._requests.partition_count(topic, create=create)

    def service_urls(self, topic: TopicName) -> tuple[str, str]:
        """Return the URLs for clients without TLS and with TLS."""
        return self.settings.advertised_url, self.settings.advertised_tls_url

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics."""
        return await self._requests.topics_of_namespace(namespace)

    async def watch_topics(
        self,
        namespace: str,
        pattern: TopicPattern,
        on_change: Callable[[frozenset[str], frozenset[str]], None],
    ) -> TopicListWatch:
        """Watch the topics that match a pattern."""
        return await self.topic_lists.watch(namespace, pattern, on_change)

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> Producer:
        """Attach a producer."""
        return await self._requests.open_producer(request, identity, sink)

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer."""
        return await self._requests.subscribe(request, identity, sink)

    async def get_schema(self, topic: TopicName, version: bytes | None) -> tuple[SchemaDefinition, bytes]:
        """Return a schema and its version."""
        return await self._requests.get_schema(topic, version)

    async def get_or_create_schema(self, topic: TopicName, schema: SchemaDefinition) -> bytes:
        """Return the version of a schema, and store the schema if it is new."""
        return await self._requests.get_or_create_schema(topic, schema)

    async def pull(self, ask: PullAsk) -> PullAnswer | ParkedPull:
        """Answer a client's HTTP request for messages, or let the request wait."""
        return await self._pulls.pull(ask)

    def pull_now(self, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        """Answer a pull without a database query. Return None if a query is needed."""
        return self._pulls.pull_now(ask)

    def forget_pull(self, parked: ParkedPull) -> None:
        """Drop a waiting request for messages."""
        self._pulls.forget(parked)

    async def committed_offset(self, topic: TopicName, queue: int, subscription: str) -> int:
        """Return the offset that a group of pull clients has committed."""
        return await self._pulls.committed_offset(topic, queue, subscription)

    async def commit_offset(
        self, topic: TopicName, queue: int, subscription: str, offset: int, peer: str
    ) -> int:
        """Commit an offset for a group of pull clients."""
        return await self._pulls.commit_offset(topic, queue, subscription, offset, peer)

    def _on_notify(self, channel: str, payload: str) -> None:
        if channel == "vela_act":
            self.acts.wake()
        elif channel == "vela_tick":
            self._ticked_ms = self.clock.now_ms()
            run_tick(payload, self.topics.all(), self.deadlines)
        elif channel == "vela_outbox":
            self.outbox.wake()
        elif channel == "vela_policies":
            self.policy_rounds.ask()
        elif channel == "vela_lifetime":
            self.lifetime.wake()
        elif channel == "vela_access":
            self.access.changed()
        elif channel == "vela_topics":
            self.topic_lists.changed(payload)

    def _resumed(self) -> None:
        self._report_anew()
        for topic in self.topics.all():
            for subscription in list(topic.subscriptions.values()):
                subscription.pump()
        self.acts.wake()
        self.access.changed()  # Notifications may have been lost
        self.topic_lists.all_changed()

    def _report_anew(self) -> None:
        """Put every topic into the next report, to restore the session rows of connected clients.

        A Celery task deletes these rows if no heartbeat was stored for a while, or if their owner epoch is out of date.
        """
        self.reporter.report_anew(self.topics.all())

    def _serves(self) -> bool:
        return self.is_ready()[0]

    def _tick_age_s(self) -> float:
        return (self.clock.now_ms() - self._ticked_ms) / 1000

    def _owns_topics(self) -> bool:
        return self.ownership.is_held

    def _require_ready(self) -> None:
        ready, why_not = self.is_ready()
        if not ready:
            # Without the lock, loading a topic could take the topic away from another broker.
            raise ServiceNotReady(f"{why_not}; connect again")
