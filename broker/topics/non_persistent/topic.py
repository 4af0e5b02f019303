"""A topic that stores nothing. A message goes only to connected consumers with permits."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.entry import FLAG_MARKER, StoredEntry
from broker.core.errors import ServiceNotReady
from broker.log.sends import Receipt
from broker.producers.access import ProducerAccess
from broker.producers.producer import Producer
from broker.producers.publish_limit import PublishLimit
from broker.subscription.machine.rates import RatePair
from broker.topics.non_persistent.subscription import NonPersistentSubscription

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.client_identity import ClientIdentity
    from broker.core.errors import BrokerError
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.log.sends import SendRequest
    from broker.producers.publish_budget import PublishBudget
    from broker.producers.requests import ProducerRequest, ProducerSink
    from broker.producers.schemas import Schemas
    from broker.subscription.consumer import Consumer
    from broker.subscription.requests import ConsumerSink, SubscribeRequest
    from broker.subscription.settings import SubscriptionSettings
    from broker.tasks import BackgroundTasks

__all__ = ["NonPersistentTopic"]

# Every stored ledger has a smaller id.
_FIRST_LEDGER: Final = 1 << 62


class NonPersistentTopic:
    """A topic that exists while clients are connected. Calls `on_empty` after the last client has left."""

    def __init__(
        self,
        name: TopicName,
        *,
        policies: Policies,
        publishes: PublishBudget,
        schemas: Schemas,
        clock: Clock,
        tasks: BackgroundTasks,
        may_send: Callable[[], bool],
        next_key: Callable[[], int],
        subscription_settings: SubscriptionSettings,
        on_empty: Callable[[NonPersistentTopic], None],
    ) -> None:
        self.name = name
        self.policies = policies
        self._subscription_settings = subscription_settings
        self._clock = clock
        self._next_key = next_key
        self._schemas = schemas
        self._may_send = may_send
        self.is_open = True
        self.subscriptions: dict[str, NonPersistentSubscription] = {}
        self.messages_in = 0
        self.bytes_in = 0
        self.publishes = publishes.account()
        self.publish_limit: PublishLimit | None = None
        self.dispatch_rate: RatePair | None = None
        self.access = ProducerAccess(
            name,
            topic_epoch=None,
            store_epoch=self._keep_epoch,
            prepare=self._learn_nothing,
            run=lambda work: tasks.keep(asyncio.create_task(work)),
        )
        self.producers = self.access.producers
        self._on_empty = on_empty
        self._attaching = 0
        self._ledger_id = _FIRST_LEDGER + next_key()
        self._next_entry_id = 0
        self._queue: list[tuple[Producer, SendRequest]] = []
        self.policies_changed()

    async def _keep_epoch(self, epoch: int) -> None:
        pass

    async def _learn_nothing(self, producer: Producer) -> None:
        pass

    # -- producers -----------------------------------------------------------------------------------------------

    async def open_producer(
        self, request: ProducerRequest, identity: ClientIdentity, sink: ProducerSink
    ) -> Producer:
        """Attach a producer, and ignore the request's initial subscription.

        Raises ServiceNotReady, NotAllowed, IncompatibleSchema, ProducerBusy, ProducerFenced.
        """
        producer = Producer(
            key=self._next_key(),
            topic=self,
            name=request.name or f"vela-np-{secrets.token_hex(5)}",
            request=request,
            identity=identity,
            sink=sink,
            now_ms=self._clock.now_ms(),
        )
        self._attaching += 1
        try:
            request.require_deduplication(is_on=False)
            producer.schema_version = await self._schemas.of_producer(
                self.name.base, request.schema, self.policies
            )
            await self.access.admit(producer)
            self._require_open()
        except BaseException:
            producer.detach()
            raise
        finally:
            self._attaching -= 1
            self._leave_if_empty()
        return producer

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer."""
        self.access.remove(producer)
        self._leave_if_empty()

    def producer_refused(self) -> None:
        """Do nothing, because the broker does not report non-persistent topics to the console."""

    def append(self, producer: Producer, request: SendRequest) -> None:
        """Queue an entry for delivery in the next event loop iteration."""
        if self.publish_limit is not None:
            self.publish_limit.sent(producer, request)
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._queue.append((producer, request))

    def _pass_on(self) -> None:
        queue, self._queue = self._queue, []
        now_ms = self._clock.now_ms()
        by_producer: dict[Producer, list[Receipt]] = {}
        entries: list[StoredEntry] = []
        for producer, request in queue:
            size_bytes = len(request.data)
            entry_id = self._next_entry_id
            self._next_entry_id = entry_id + 1
            self.messages_in += request.messages
            self.bytes_in += size_bytes
            entries.append(
                StoredEntry(
                    self._ledger_id,
                    entry_id,
                    request.messages,
                    request.flags,
                    request.key_hash,
                    0,
                    now_ms,
                    self.messages_in,
                    self.bytes_in,
                    request.data,
                )
            )
            by_producer.setdefault(producer, []).append(
                Receipt(
                    request.sequence_id, request.highest_sequence_id, self._ledger_id, entry_id, size_bytes
                )
            )
        if self._may_send():
            wanted = [each for each in entries if not each.flags & FLAG_MARKER]
            for subscription in list(self.subscriptions.values()):
                subscription.deliver(wanted, now_ms)
        for producer, receipts in by_producer.items():
            messages = sum(request.messages for sender, request in queue if sender is producer)
            producer.answered(receipts, messages, sum(each.size_bytes for each in receipts), now_ms)

    # -- consumers -----------------------------------------------------------------------------------------------

    async def subscribe(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer.

        Raises ServiceNotReady, IncompatibleSchema, and the errors of `NonPersistentSubscription.attach`.
        """
        self._attaching += 1
        try:
            if request.schema is not None:
                await self._schemas.of_consumer(
                    self.name.base, request.schema, self.policies, is_idle=self._is_idle()
                )
            subscription = self.subscriptions.get(request.subscription)
            if subscription is None:
                subscription = self._new_subscription(request)
            consumer = await subscription.attach(request, identity, sink)
            if self.subscriptions.setdefault(request.subscription, subscription) is not subscription:
                # While `attach` waited, another client created a new subscription with this name.
                consumer.detach()
                raise ServiceNotReady(
                    f"subscription {request.subscription} has just begun anew; subscribe again"
                )
            self._require_open()
            return consumer
        finally:
            self._attaching -= 1
            self._leave_if_empty()

    def _new_subscription(self, request: SubscribeRequest) -> NonPersistentSubscription:
        dispatcher = self._subscription_settings.new_dispatcher(
            request.type, request.key_shared, topic_name=self.name, failover_delay_ms=0
        )
        return NonPersistentSubscription(
            self, request.subscription, request.type, dispatcher, self._clock, self._next_key
        )

    def consumers_connected(self) -> int:
        """Return the number of consumers of all subscriptions."""
        return sum(len(each.consumers) for each in self.subscriptions.values())

    def forget_subscription(self, subscription: NonPersistentSubscription) -> None:
        """Forget a subscription after its last consumer has left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
        self._leave_if_empty()

    # -- policies and closing ------------------------------------------------------------------------------------

    def set_policies(self, policies: Policies) -> None:
        """Apply the new policies."""
        if policies != self.policies:
            self.policies = policies
            self.policies_changed()

    def policies_changed(self) -> None:
        """Update everything derived from `self.policies`."""
        clock = self._clock
        self.publish_limit = PublishLimit.of(
            self.policies, clock, asyncio.get_running_loop().call_later, replaces=self.publish_limit
        )
        self.dispatch_rate = RatePair.of(
            self.policies.dispatch_rate_messages, self.policies.dispatch_rate_bytes, clock.now_ms()
        )
        self.access.max_producers = self.policies.max_producers
        for subscription in self.subscriptions.values():
            subscription.rates_changed()

    def close(self, error: BrokerError | None) -> None:
        """Close the topic, its producers and its consumers."""
        self.is_open = False
        if self.publish_limit is not None:
            self.publish_limit.release()
        self.access.close(error)
        for subscription in list(self.subscriptions.values()):
            subscription.close_consumers("the broker closed the topic")

    def _is_idle(self) -> bool:
        return not self.producers and not self.subscriptions

    def _leave_if_empty(self) -> None:
        if self.is_open and not self._attaching and self._is_idle() and not self.access.is_claimed:
            self.is_open = False
            self._on_empty(self)

    def _require_open(self) -> None:
        if not self.is_open:
            raise ServiceNotReady(f"{self.name} is being closed; connect again")
