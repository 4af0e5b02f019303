"""One topic in the memory of the process that owns it.

This file is long because half of the code declares and connects the parts of a topic.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from broker.core.errors import BrokerError, ServiceNotReady, TopicFenced, TopicTerminated
from broker.core.position import EARLIEST
from broker.core.subscription.types import SubscriptionType
from broker.log.delayed import DelayedMessages
from broker.log.reader import TopicReader
from broker.producers.access import ProducerAccess
from broker.producers.producer import Producer
from broker.producers.publish_limit import PublishLimit
from broker.storage.topics import topics as store
from broker.subscription.admission import check_batches
from broker.subscription.consumer import Consumer
from broker.subscription.machine.rates import RatePair, rates_of
from broker.subscription.subscription import Subscription
from broker.topics.backlog_quota import BacklogQuota
from broker.topics.policies_in_force import rollover_policy
from broker.topics.topic_subscriptions import NewSubscription, SubscriptionReports, TopicSubscriptions

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from broker.clock import Clock
    from broker.core.client_identity import ClientIdentity
    from broker.core.entry import StoredEntry
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.deadlines import Deadlines
    from broker.log.compaction.view import CompactedView
    from broker.log.epochs import Epochs
    from broker.log.places.file import FileReads
    from broker.log.sends import SendRequest
    from broker.log.topic_log import AppendBatch, Send, TopicLog
    from broker.log.writer import Writer
    from broker.producers.deduplication import TopicDeduplication
    from broker.producers.deduplication_keeper import DeduplicationKeeper
    from broker.producers.publish_budget import PublishBudget
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.producers.schemas import Schemas
    from broker.storage.connection import Connection
    from broker.storage.pool import ConnectionPool
    from broker.subscription.requests import ConsumerSink, SubscribeRequest
    from broker.tasks import BackgroundTasks
    from broker.tracing.tracing import Tracing

__all__ = ["Topic", "TopicReports", "WaitingPulls"]

logger = logging.getLogger(__name__)
T = TypeVar("T")


class TopicReports(SubscriptionReports, Protocol):
    """Reports changes of topics, producers and subscriptions to the console."""

    def topic_changed(self, topic: Topic) -> None:
        """Put this topic into the next report."""

    def producer_gone(self, topic: Topic, producer: Producer) -> None:
        """Stop reporting this producer."""


class WaitingPulls(Protocol):
    """The long-polling requests that are waiting for a message."""

    def waits_for(self, name: TopicName) -> bool:
        """Return whether a request waits for this topic."""

    def arrived(self, topic: Topic, entries: Sequence[StoredEntry]) -> None:
        """Offer these newly stored entries to the waiting requests."""

    def topic_gone(self, topic: Topic) -> None:
        """Answer the requests that wait for this topic."""


class Topic:
    """A topic that this process owns.

    A closed `Topic` object never reopens.
    """

    # Slots save 1.5 KiB per topic.
    __slots__ = (
        "__weakref__",
        "_clock",
        "_deadlines",
        "_deduplication_keeper",
        "_epochs",
        "_next_key",
        "_on_gone",
        "_publish_latency",
        "_pulls",
        "_rates",
        "_refuse_old_clients",
        "_reports",
        "_schemas",
        "_tracing",
        "_writer",
        "access",
        "asked_ms",
        "compacted",
        "deduplication",
        "delayed",
        "dispatch_rate",
        "is_terminated",
        "last_append_ms",
        "last_used_ms",
        "loaded_bytes",
        "loaded_messages",
        "log",
        "name",
        "policies",
        "producers",
        "publish_limit",
        "publishes",
        "quota",
        "reader",
        "subscriptions",
        "topic_id",
    )

    def __init__(
        self,
        *,
        log: TopicLog,
        terminated: bool,
        policies: Policies,
        producer_epoch: int | None,
        compacted: CompactedView,
        pool: ConnectionPool,
        files: FileReads,
        epochs: Epochs,
        writer: Writer,
        clock: Clock,
        deadlines: Deadlines,
        tasks: BackgroundTasks,
        schemas: Schemas,
        deduplication_keeper: DeduplicationKeeper,
        publishes: PublishBudget,
        pulls: WaitingPulls,
        reports: TopicReports,
        publish_latency: Histogram,
        tracing: Tracing | None,
        tick_ms: int,
        next_key: Callable[[], int],
        on_gone: Callable[[Topic], None],
        new_subscription: NewSubscription,
        refuse_old_clients: bool,
    ) -> None:
        self.name = log.name
        self.topic_id = log.topic_id
        self.is_terminated = terminated
        self.policies = policies  # Changed only by `set_policies`
        self.log = log
        log.listener = self
        self.loaded_messages, self.loaded_bytes = log.ledgers.total_messages, log.ledgers.total_bytes
        self._refuse_old_clients = refuse_old_clients
        self._epochs = epochs
        self._writer = writer
        self._clock = clock
        self._deadlines = deadlines
        self._schemas = schemas
        self._deduplication_keeper = deduplication_keeper
        self._pulls = pulls
        self._reports = reports
        self._publish_latency = publish_latency
        self._tracing = tracing
        self._next_key = next_key
        self._on_gone = on_gone
        self.reader = TopicReader(pool, files, log)
        self.compacted = compacted
        self.subscriptions = TopicSubscriptions(
            self,
            new_subscription,
            pool=pool,
            clock=clock,
            deadlines=deadlines,
            tasks=tasks,
            reports=reports,
        )
        self.delayed = DelayedMessages(
            log,
            policies,
            self.subscriptions,
            clock=clock,
            tick_ms=tick_ms,
            pool=pool,
            epochs=epochs,
            deadlines=deadlines,
            keep=tasks.keep,
        )
        self.access = ProducerAccess(
            self.name,
            topic_epoch=producer_epoch,
            store_epoch=self._store_producer_epoch,
            prepare=self._learn_last_sequence_id,
            run=lambda work: tasks.keep(asyncio.create_task(work)),
        )
        self.producers = self.access.producers
        self.deduplication: TopicDeduplication | None = None
        self.publishes = publishes.account()
        self.publish_limit: PublishLimit | None = None
        self.dispatch_rate: RatePair | None = None
        self._rates: tuple[int, ...] | None = None
        self.quota = BacklogQuota(self, pool, clock)
        self.last_append_ms = 0
        self.last_used_ms = clock.now_ms()  # Time when a client last left
        # Time when `Topics.open` last returned this topic, or when `may_leave` last found it in use
        self.asked_ms = self.last_used_ms

    @property
    def owner_epoch(self) -> int:
        """The epoch of this process's ownership of the topic. Each new owner increases the epoch."""
        return self.log.owner_epoch

    @property
    def is_open(self) -> bool:
        """Whether the topic is open."""
        return self.log.is_open

    @property
    def is_fenced(self) -> bool:
        """Whether the topic is closed because another broker may own it or the state in memory may be wrong."""
        return self.log.is_fenced

    async def write(self, call: Callable[[Connection, int], Awaitable[T | None]], *, what: str) -> T | None:
        """Run a write that has no effect if another broker has taken over the topic.

        Returns the result of `call`. If another broker has taken over, closes the topic and returns None. Raises
        psycopg.Error if PostgreSQL refuses the write.
        """
        return await self._epochs.write(self.log, call, what=what)

    # -- producers and appends -----------------------------------------------------------------------------------

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> Producer:
        """Attach a producer. While the producer waits for exclusive access, its `is_ready` is False.

        Raises ServiceNotReady, TopicTerminated, TopicFenced, QuotaHold, QuotaExceeded, NotAllowed, IncompatibleSchema,
        ProducerBusy, ProducerFenced, PersistenceFailed and psycopg.Error. Raises SubscriptionNotFound if the policies
        forbid the creation of the initial subscription.
        """
        self._require_appendable()
        await self.quota.require_room()
        request.require_deduplication(is_on=self.deduplication is not None and self.deduplication.is_enabled)
        if request.initial_subscription:
            await self.subscriptions.find_or_create(
                request.initial_subscription, SubscriptionType.SHARED, EARLIEST, {}, by_attaching=True
            )
        producer = Producer(
            key=self._next_key(),
            topic=self,
            name=request.name or f"vela-{self.topic_id}-{secrets.token_hex(5)}",
            request=request,
            identity=identity,
            sink=sink,
            now_ms=self._clock.now_ms(),
        )
        producer.schema_version = await self._schemas.of_producer(
            self.name.base, request.schema, self.policies
        )
        try:
            await self.access.admit(producer)
            self._require_appendable()  # The topic may have been closed or terminated during the wait
        except BaseException:
            producer.detach()
            raise
        self._reports.topic_changed(self)
        return producer

    async def _learn_last_sequence_id(self, producer: Producer) -> None:
        while producer.is_deduplicated and (current := self.deduplication) is not None and current.is_enabled:
            last_sequence_id = await current.last_sequence_id(producer.name)
            if current.is_enabled:  # Deduplication may have been switched off during the wait
                producer.last_sequence_id = last_sequence_id
                return

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer. Its queued sends stay queued."""
        self.access.remove(producer)
        self.last_used_ms = self._clock.now_ms()
        self._reports.producer_gone(self, producer)

    def close_producers(self, error: BrokerError | None) -> None:
        """Close all producers, and pass `error` to their connections."""
        self.access.close(error)

    def append(self, producer: Producer, request: SendRequest) -> None:
        """Queue an entry for the writer, or tell the producer why the topic refuses the entry."""
        if not self.is_open:
            producer.failed(request, TopicFenced(f"{self.name} moved; connect again"))
            return
        if self.is_terminated:
            producer.failed(request, TopicTerminated(f"{self.name} is terminated: it takes no more messages"))
            return
        if request.deliver_at_ms and (refusal := self.delayed.refusal(request)) is not None:
            producer.failed(request, refusal)
            return
        if self.publish_limit is not None:
            self.publish_limit.sent(producer, request)
        if self.deduplication is not None and not self.deduplication.admit(producer, request):
            return
        self.log.enqueue(producer, request)
        self._writer.submit(self.log)

    def producer_refused(self) -> None:
        """Put this topic into the next report, because a send was refused."""
        self._reports.topic_changed(self)

    def stored(self, batch: AppendBatch) -> None:
        """Send the receipts for a durable batch, then deliver the batch."""
        now_ms = self._clock.now_ms()
        repeated = () if self.deduplication is None else self.deduplication.stored(batch, now_ms)
        for producer, (receipts, (messages, size_bytes)) in batch.receipts().items():
            producer.answered(receipts, messages, size_bytes, now_ms)
        for producer in repeated:
            producer.settle_repeats()
        waited_s = time.monotonic() - batch.since_s
        self._publish_latency.observe(waited_s)
        if self._tracing is not None:
            self._tracing.published(self.name.full, batch.entries, waited_s=waited_s, stored_ms=now_ms)
        self.last_append_ms = now_ms
        self._reports.topic_changed(self)
        if batch.delayed:
            self.delayed.appended(batch.delayed)
        if self._pulls.waits_for(self.name):
            self._pulls.arrived(self, batch.entries)
        for subscription in list(self.subscriptions.values()):
            subscription.pump()

    def refused(self, sends: Sequence[Send], error: BrokerError) -> None:
        """Refuse sends that cannot be stored, and close their producers.

        An open producer could store new entries before the client sends the refused entries again.
        """
        if self.deduplication is not None:
            sends = [*sends, *self.deduplication.give_up()]
        for producer, request in sends:
            producer.failed(request, error)
        for producer in {producer: None for producer, _ in sends}:
            producer.closed_by_broker(error)

    async def _store_producer_epoch(self, producer_epoch: int) -> None:
        stored = await self.write(
            lambda connection, epoch: store.set_producer_epoch(
                connection, topic_id=self.topic_id, owner_epoch=epoch, producer_epoch=producer_epoch
            ),
            what="storing a producer's epoch",
        )
        if stored is None:
            raise TopicFenced(f"{self.name} moved to another broker; connect again")

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer. A missing subscription is created if the policies allow that.

        Raises ServiceNotReady, UnsupportedVersion, IncompatibleSchema, and the errors of
        `TopicSubscriptions.of_request` and `Subscription.attach`.
        """
        self._require_open()
        if self._refuse_old_clients:
            check_batches(self.log, identity)
        if request.schema is not None:
            await self._schemas.of_consumer(
                self.name.base, request.schema, self.policies, is_idle=self._is_idle()
            )
        subscription = await self.subscriptions.of_request(request)
        try:
            consumer = await subscription.attach(request, identity, sink)
        finally:
            is_kept = self.subscriptions.settle_reader(subscription)
        if not is_kept:
            consumer.detach()
            raise ServiceNotReady(
                f"another reader has just taken the name {subscription.name}; subscribe again"
            )
        return consumer

    def _is_idle(self) -> bool:
        has_consumers = any(each.consumers for each in self.subscriptions.values())
        # Compaction may have kept copies of trimmed messages.
        has_messages = self.compacted.horizon is not None or any(each.entries for each in self.log.ledgers)
        return not (self.producers or has_consumers or has_messages)

    def forget_subscription(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        self.subscriptions.forget(subscription)

    def consumers_connected(self) -> int:
        """Return the number of consumers, including readers."""
        return sum(len(each.consumers) for each in self.subscriptions.values())

    def consumer_left(self, now_ms: int) -> None:
        """Remember that the topic was in use until `now_ms`."""
        self.last_used_ms = now_ms

    # -- policies ------------------------------------------------------------------------------------------------

    def set_policies(self, policies: Policies) -> None:
        """Apply these policies if they differ from the current policies."""
        if policies != self.policies:
            self.policies = policies
            self.policies_changed()

    def loaded(self) -> None:
        """Apply the policies. The loader calls this after adding the stored subscriptions."""
        self.policies_changed()
        self._reports.topic_changed(self)

    def policies_changed(self) -> None:
        """Update everything derived from `self.policies`."""
        self.log.policy = rollover_policy(self.policies)
        self.delayed.policies_changed(self.policies)
        for subscription in list(self.subscriptions.values()):
            subscription.policies_changed()
        self.access.max_producers = self.policies.max_producers
        if (rates := rates_of(self.policies)) != self._rates:
            self._rates = rates
            self._rates_changed()
        self._deduplication_keeper.apply_policy(self)

    def _rates_changed(self) -> None:
        clock, call_later = self._clock, asyncio.get_running_loop().call_later
        self.publish_limit = PublishLimit.of(self.policies, clock, call_later, replaces=self.publish_limit)
        self.dispatch_rate = RatePair.of(
            self.policies.dispatch_rate_messages, self.policies.dispatch_rate_bytes, clock.now_ms()
        )
        for subscription in self.subscriptions.values():
            subscription.rates_changed()

    # -- the end -------------------------------------------------------------------------------------------------

    def given_up(self, error: BrokerError | None) -> None:
        """Close all producers and consumers, and answer the waiting requests, because the log is closed.

        `error` is set only if `is_fenced` is True.
        """
        self._on_gone(self)
        steps: list[Callable[[], object]] = [self.publishes.close]
        if self.publish_limit is not None:
            steps.append(self.publish_limit.release)
        if self.deduplication is not None:
            steps.append(self.deduplication.close)
        steps.append(partial(self.close_producers, error))
        for subscription in list(self.subscriptions.values()):
            steps.append(partial(subscription.close_consumers, "the broker closed the topic"))
            steps.append(subscription.stop_reading)
            steps.append(partial(self._deadlines.forget, subscription))
        steps.append(partial(self._deadlines.forget, self.delayed))
        steps.append(partial(self._pulls.topic_gone, self))
        for step in steps:
            try:
                step()
            except Exception:
                logger.exception(
                    "%s: a step of closing the topic failed; the other steps still run", self.name
                )

    def _require_appendable(self) -> None:
        self._require_open()
        if self.is_terminated:
            raise TopicTerminated(f"{self.name} is terminated: it takes no more messages")

    def _require_open(self) -> None:
        if not self.is_open:
            raise ServiceNotReady(f"{self.name} is moving; look it up again")
