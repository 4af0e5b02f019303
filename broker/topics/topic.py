"""One topic in its owner's memory: its log, its producers, its subscriptions.

Over 400 lines: what opens, closes and fences a topic must be read beside whom it lets in and lets go.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.state import CursorState
from broker.core.errors import (
    BrokerError,
    NotAllowed,
    ServiceNotReady,
    TopicFenced,
    TopicTerminated,
)
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import EARLIEST, LATEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.log.delayed import DELAYING, DelayedMessages
from broker.log.reader import TopicReader
from broker.log.sends import Receipt
from broker.producers.access import ProducerAccess
from broker.producers.producer import Producer
from broker.producers.publish_limit import PublishLimit
from broker.storage.cursors import cursors as cursor_store
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as store
from broker.subscription.consumer import Consumer
from broker.subscription.dispatch.rates import RatePair, rates_of
from broker.subscription.limits import require_new_subscription
from broker.subscription.old_clients import check_batches
from broker.subscription.subscription import Subscription
from broker.topics.backlog_quota import BacklogQuota
from broker.topics.policies_in_force import rollover_policy

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.policies import Policies
    from broker.log.sends import SendRequest
    from broker.log.topic_log import AppendBatch, Send, TopicLog
    from broker.process.services import Services
    from broker.producers.deduplication import TopicDeduplication
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.storage.connection import Connection
    from broker.subscription.requests import ConsumerSink, SubscribeRequest

__all__ = ["Topic"]

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Topic:
    """A topic that this process owns, as its log says; closed for good with its log."""

    def __init__(
        self,
        *,
        terminated: bool,
        policies: Policies,
        producer_epoch: int | None,
        log_: TopicLog,
        services: Services,
    ) -> None:
        self.name = log_.name
        self.topic_id = log_.topic_id
        self.is_terminated = terminated
        self.policies = policies  # in force now; replaced by `set_policies` alone
        self.log = log_
        log_.listener = self
        self.services = services
        self.reader = TopicReader(services.pool, log_)
        self.delayed = DelayedMessages(
            log_,
            policies,
            self,
            clock=services.clock,
            tick_ms=services.settings.tick_ms,
            pool=services.pool,
            epochs=services.epochs,
            deadlines=services.deadlines,
            keep=services.keep,
        )
        self.access = ProducerAccess(
            self.name,
            topic_epoch=producer_epoch,
            store_epoch=self._store_producer_epoch,
            run=lambda work: services.keep(asyncio.create_task(work)),
        )
        self.producers = self.access.producers
        self.deduplication: TopicDeduplication | None = None
        self.publishes = services.publishes.account()
        self.publish_limit: PublishLimit | None = None
        self.dispatch_rate: RatePair | None = None
        self._rates: tuple[int, ...] | None = None  # in force; None = not looked at yet
        self.subscriptions: dict[str, Subscription] = {}
        self.quota = BacklogQuota(self, services.pool, services.clock)
        self.last_append_ms = 0
        self.last_used_ms = services.clock.now_ms()  # when the last client left
        self.asked_ms = self.last_used_ms  # when somebody last asked for the topic
        self.creating = (
            asyncio.Lock()
        )  # held while subscriptions and bookmarks are made, and while ledgers are trimmed

    @property
    def owner_epoch(self) -> int:
        """Under which this process owns the topic; see `Epochs`."""
        return self.log.owner_epoch

    @property
    def is_open(self) -> bool:
        """False for good once the topic was fenced or closed."""
        return self.log.is_open

    @property
    def is_fenced(self) -> bool:
        """Closed because nothing of it may be stored any more."""
        return self.log.is_fenced

    async def write(self, call: Callable[[Connection, int], Awaitable[T | None]], *, what: str) -> T | None:
        """One write guarded by this topic's epoch; None: another broker has the topic. Raises as `Epochs.write`."""
        return await self.services.epochs.write(self.log, call, what=what)

    # -- producers and appends -----------------------------------------------------------------------------------

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> Producer:
        """Attach a producer (protocol 3.5), or queue one that waits for exclusive access: it is not ready then.

        Raises ProducerBusy, ProducerFenced, IncompatibleSchema, TopicTerminated.
        """
        self._require_open()
        if self.is_terminated:
            raise TopicTerminated(f"{self.name} is terminated: it takes no more messages")
        await self.quota.require_room()
        if request.initial_subscription:
            await self.find_or_create_subscription(
                request.initial_subscription, SubscriptionType.SHARED, EARLIEST, {}
            )
        producer = Producer(
            key=self.services.next_key(),
            topic=self,
            name=request.name or f"vela-{self.topic_id}-{secrets.token_hex(5)}",
            request=request,
            identity=identity,
            sink=sink,
            now_ms=self.services.clock.now_ms(),
        )
        producer.schema_version = await self.services.schemas.of_producer(
            self.name.base, request.schema, self.policies
        )
        if self.deduplication is not None and self.deduplication.is_enabled and producer.is_deduplicated:
            producer.last_sequence_id = await self.deduplication.last_sequence_id(producer.name)
        try:
            await self.access.admit(producer)
            self._require_open()
        except BaseException:
            producer.detach()
            raise
        self.services.reporter.topic_changed(self)
        return producer

    def remove_producer(self, producer: Producer) -> None:
        """A producer is gone; its queued sends stay."""
        self.access.remove(producer)
        self.last_used_ms = self.services.clock.now_ms()
        self.services.reporter.producer_gone(self, producer)

    def close_producers(self, error: BrokerError | None) -> None:
        """Let every producer go; each opens again by itself and is told why not."""
        self.access.close(error)

    def append(self, producer: Producer, request: SendRequest) -> None:
        """Queue an entry for the writer."""
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
        self.services.writer.submit(self.log)

    def stored(self, batch: AppendBatch) -> None:
        """Give receipts for a durable batch, in the order of the sends, then deliver it."""
        now_ms = self.services.clock.now_ms()
        repeated = () if self.deduplication is None else self.deduplication.stored(batch, now_ms)
        by_producer: dict[Producer, tuple[list[Receipt], list[int]]] = {}
        for (producer, request), entry in zip(batch.sends, batch.entries, strict=True):
            found = by_producer.get(producer)
            if found is None:
                found = by_producer[producer] = ([], [0, 0])
            size_bytes = len(request.data)
            found[0].append(
                Receipt(
                    request.sequence_id,
                    request.highest_sequence_id,
                    entry.ledger_id,
                    entry.entry_id,
                    size_bytes,
                )
            )
            found[1][0] += request.messages
            found[1][1] += size_bytes
        for producer, (receipts, (messages, size_bytes)) in by_producer.items():
            producer.answered(receipts, messages, size_bytes, now_ms)
        for producer in repeated:
            producer.settle_repeats()
        self.services.instruments.publish_latency.observe(time.monotonic() - batch.since_s)
        self.last_append_ms = now_ms
        self.services.reporter.topic_changed(self)
        if batch.delayed:
            self.delayed.appended(batch.delayed)
        if self.services.pulls.waits_for(self.name):
            self.services.pulls.arrived(self, batch.entries)
        for subscription in list(self.subscriptions.values()):
            subscription.pump()

    def refused(self, sends: Sequence[Send], error: BrokerError) -> None:
        """Close the producers of sends that cannot be stored: they resend after reconnecting.

        Closed, since what such a producer has sent after the refused entries must not overtake their repetition.
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
        """Attach a consumer, making its subscription when there is none (protocol 3.7)."""
        self._require_open()
        check_batches(self, identity)
        if request.schema is not None:
            await self.services.schemas.of_consumer(
                self.name.base, request.schema, self.policies, is_idle=self._is_idle()
            )
        if request.durable:
            start = EARLIEST if request.earliest else LATEST
            if request.rollback_s:
                start = await self._rolled_back(request.rollback_s)
            subscription = await self.find_or_create_subscription(
                request.subscription,
                request.type,
                start,
                dict(request.subscription_properties),
                by_attaching=True,
            )
        else:
            subscription = await self._reader_subscription(request)
        try:
            return await subscription.attach(request, identity, sink)
        finally:
            # A reader's cursor lives with its consumers: an attach that failed neither leaves it nor takes it away.
            if not subscription.is_durable and subscription.consumers:
                self.subscriptions.setdefault(request.subscription, subscription)
            elif not subscription.is_durable:
                self.forget_subscription(subscription)

    def _is_idle(self) -> bool:
        """Neither messages nor clients: a schema can still be anything."""
        has_consumers = any(each.consumers for each in self.subscriptions.values())
        return not (self.producers or has_consumers or self.log.ledgers.total_entries)

    async def find_or_create_subscription(
        self,
        name: str,
        type_: SubscriptionType,
        start: Position,
        properties: dict[str, str],
        *,
        by_attaching: bool = False,
        remaining: int | None = None,
    ) -> Subscription:
        """The durable subscription of this name; `by_attaching`: made only where connecting may make one.

        Raises NotAllowed when a reader uses the name or there are too many, SubscriptionNotFound.

        Cancelling it does not stop it: what PostgreSQL stores, memory must know.
        """
        return await self.services.finish(
            self._find_or_create(name, type_, start, properties, by_attaching, remaining)
        )

    async def _find_or_create(
        self,
        name: str,
        type_: SubscriptionType,
        start: Position,
        properties: dict[str, str],
        by_attaching: bool,
        remaining: int | None,
    ) -> Subscription:
        async with self.creating:
            known = self.subscriptions.get(name)
            if known is not None:
                if not known.is_durable:
                    raise NotAllowed(
                        f"subscription {name} of {self.name} belongs to a reader; choose another name"
                    )
                return known
            require_new_subscription(self, name, by_attaching=by_attaching)
            state = await self.cursor_starting_at(start, remaining)
            subscription_id = await self.write(
                lambda connection, epoch: cursor_store.create_subscription(
                    connection,
                    topic_id=self.topic_id,
                    owner_epoch=epoch,
                    name=name,
                    type_name=type_.value,
                    properties=properties,
                    state=state,
                ),
                what="creating a subscription",
            )
            if subscription_id is None:
                raise TopicFenced(f"{self.name} moved to another broker; connect again")
            if not subscription_id:
                subscription_id, state = await self._stored_subscription(name)
            # What was appended while the row was being written is delivered, even from LATEST: the stored cursor
            # stands before it.
            return self.add_subscription(
                subscription_id, name, type_, Cursor(self.log.ledgers, self.log.index, state)
            )

    async def cursor_starting_at(self, start: Position, remaining: int | None = None) -> CursorState:
        """A new cursor whose next entry is `start`, or the next one stored; of it `remaining` is unacked."""
        while True:
            try:
                return Cursor.starting_at(self.log.ledgers, self.log.index, start, remaining).snapshot()
            except IndexMissing as missing:
                await self.reader.load_index(missing.ranges)

    async def _stored_subscription(self, name: str) -> tuple[int, CursorState]:
        """The row that was there already: written by the same call, whose answer was lost."""
        rows = await repeat_until_done(
            self.services.pool,
            lambda c: cursor_store.subscriptions_of(c, self.topic_id),
            what="looking for a subscription",
        )
        for row in rows:
            if row.name == name:
                return row.subscription_id, row.cursor
        raise ServiceNotReady(f"subscription {name} was removed while it was being made; subscribe again")

    def add_subscription(
        self, subscription_id: int | None, name: str, type_: SubscriptionType, cursor: Cursor
    ) -> Subscription:
        """Take a subscription into memory."""
        subscription = Subscription(
            topic=self, subscription_id=subscription_id, name=name, type_=type_, cursor=cursor
        )
        self.subscriptions[name] = subscription
        subscription.rates_changed()
        self.services.reporter.changed(subscription)
        return subscription

    def forget_subscription(self, subscription: Subscription) -> None:
        """It was removed, or the last consumer of a reader's cursor left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
        self.services.deadlines.forget(subscription)

    async def store_subscription_type(self, subscription: Subscription) -> None:
        """Remember the type for the console and for the next owner."""
        await repeat_until_done(
            self.services.pool,
            lambda c: cursor_store.set_type(
                c,
                subscription_id=subscription.subscription_id,
                owner_epoch=self.owner_epoch,
                type_name=subscription.type.value,
            ),
            what="storing a subscription's type",
        )

    async def _reader_subscription(self, request: SubscribeRequest) -> Subscription:
        known = self.subscriptions.get(request.subscription)
        if known is not None:
            if known.is_durable:
                raise NotAllowed(
                    f"subscription {request.subscription} of {self.name} is durable; choose another name for a reader"
                )
            return known
        start = LATEST if request.start is None else request.start
        if request.rollback_s:
            start = await self._rolled_back(request.rollback_s)
        async with self.creating:
            known = self.subscriptions.get(request.subscription)
            if known is not None and not known.is_durable:
                return known
            state = await self.cursor_starting_at(start, request.start_remaining)
            cursor = Cursor(self.log.ledgers, self.log.index, state)
            return self.add_subscription(None, request.subscription, request.type, cursor)

    async def _rolled_back(self, rollback_s: int) -> Position:
        return await self.reader.position_at_time(self.services.clock.now_ms() - rollback_s * 1000)

    # -- delayed messages ----------------------------------------------------------------------------------------

    def replay(self, positions: Sequence[Position]) -> None:
        """Send these entries, which are due, on every subscription that passes over what is not."""
        for subscription in list(self.subscriptions.values()):
            if subscription.type in DELAYING:
                subscription.replay(positions)

    def has_room_for_replays(self) -> bool:
        """Whether a Shared subscription has sent all that was released before, or none can send."""
        waiting = [
            each.dispatcher.replay_entries
            for each in self.subscriptions.values()
            if each.type is SubscriptionType.SHARED and each.dispatcher.can_send()
        ]
        return not waiting or min(waiting) == 0

    # -- policies ------------------------------------------------------------------------------------------------

    def set_policies(self, policies: Policies) -> None:
        """An operator changed the namespace's document or the topic's. Costs nothing when the outcome is the same."""
        if policies != self.policies:
            self.policies = policies
            self.policies_changed()

    def policies_changed(self) -> None:
        """Bring what was derived from `self.policies` up to date; what reads them at each use needs nothing here."""
        self.log.policy = rollover_policy(self.policies)
        self.delayed.policies_changed(self.policies)
        for subscription in list(self.subscriptions.values()):
            subscription.policies_changed()
        self.access.max_producers = self.policies.max_producers
        if (rates := rates_of(self.policies)) != self._rates:
            self._rates = rates
            self._rates_changed()
        self.services.deduplication.apply_policy(self)

    def _rates_changed(self) -> None:
        clock, call_later = self.services.clock, asyncio.get_running_loop().call_later
        self.publish_limit = PublishLimit.of(self.policies, clock, call_later, replaces=self.publish_limit)
        self.dispatch_rate = RatePair.of(
            self.policies.dispatch_rate_messages, self.policies.dispatch_rate_bytes, clock.now_ms()
        )
        for subscription in self.subscriptions.values():
            subscription.rates_changed()

    # -- the end -------------------------------------------------------------------------------------------------

    def given_up(self, error: BrokerError | None) -> None:
        """Let every client go: the log was fenced or closed."""
        self.services.forget_topic(self)
        steps: list[Callable[[], object]] = [self.publishes.close]
        if self.publish_limit is not None:
            steps.append(self.publish_limit.release)
        if self.deduplication is not None:
            steps.append(self.deduplication.close)
        steps.append(partial(self.close_producers, error))
        for subscription in list(self.subscriptions.values()):
            steps.append(partial(subscription.close_consumers, "the broker lets the topic go"))
            steps.append(subscription.stop_reading)
            steps.append(partial(self.services.deadlines.forget, subscription))
        steps.append(partial(self.services.deadlines.forget, self.delayed))
        steps.append(partial(self.services.pulls.topic_gone, self))
        for step in steps:
            try:
                step()
            except Exception:  # everybody else must be let go all the same
                logger.exception("%s: letting the topic go", self.name)

    def _require_open(self) -> None:
        if not self.is_open:
            raise ServiceNotReady(f"{self.name} is moving; look it up again")
