"""A subscription without a cursor, for a non-persistent topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import MetadataInvalid, NotAllowed
from broker.core.position import EARLIEST, Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.admission import require_consumer_room
from broker.subscription.consumer import Consumer
from broker.subscription.machine.rates import DispatchLimit, RatePair
from broker.subscription.machine.read_entries import whole_entries
from broker.subscription.requests import Delivery, LastMessage

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.client_identity import ClientIdentity
    from broker.core.dispatchers.base import Dispatcher
    from broker.core.entry import StoredEntry
    from broker.core.policies import Policies
    from broker.core.subscription.story_rows import StoryEvent
    from broker.core.topic_name import TopicName
    from broker.subscription.requests import AckRequest, ConsumerSink, DurableCallback, SubscribeRequest

__all__ = ["NonPersistentSubscription", "PassingTopic"]

_BATCHES_REMEMBERED = 1000


class PassingTopic(Protocol):
    """The part of a topic that its subscriptions use."""

    @property
    def name(self) -> TopicName: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def dispatch_rate(self) -> RatePair | None: ...
    def consumers_connected(self) -> int: ...
    def forget_subscription(self, subscription: NonPersistentSubscription) -> None: ...


class NonPersistentSubscription:
    """A subscription that exists while it has consumers. Use it only from the event loop."""

    def __init__(
        self,
        topic: PassingTopic,
        name: str,
        type_: SubscriptionType,
        dispatcher: Dispatcher,
        clock: Clock,
        next_key: Callable[[], int],
    ) -> None:
        """`dispatcher` must be made for `type_` and must have no consumers."""
        self.topic = topic
        self.name = name
        self.type = type_
        self.consumers: dict[int, Consumer] = {}
        self.messages_out = 0
        self.messages_dropped = 0
        self.dispatch_limit: DispatchLimit | None = None
        self._dispatcher = dispatcher
        self._clock = clock
        self._next_key = next_key
        self._batches: dict[Position, int] = {}  # Message counts of recently sent batches
        self.rates_changed()

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition that the subscription reads."""
        return self.topic.name

    @property
    def backlog_entries(self) -> int:
        """Always 0, because no message waits."""
        return 0

    # -- attach and detach ---------------------------------------------------------------------------------------

    async def attach(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer. Raises ConsumerBusy, SubscriptionBusy, ConsumerAssignFailed."""
        if request.type is self.type is SubscriptionType.EXCLUSIVE:
            for other in list(self.consumers.values()):
                if not await other.sink.is_alive():
                    other.closed_by_broker(
                        "its connection does not answer, and another consumer wants to subscribe"
                    )
                    self.remove_consumer(other)
        require_consumer_room(
            self.topic.policies,
            self.topic.name,
            self.name,
            consumers=len(self.consumers),
            consumers_of_topic=self.topic.consumers_connected(),
        )
        dispatch = DispatchConsumer(
            key=self._next_key(),
            name=request.consumer_name,
            priority=request.priority,
            writable=sink.is_writable(),
            key_shared=request.key_shared,
        )
        self._dispatcher.attach(dispatch, request.type)
        consumer = Consumer(
            subscription=self,
            request=request,
            identity=identity,
            sink=sink,
            dispatch=dispatch,
            now_ms=self._clock.now_ms(),
        )
        self.consumers[consumer.key] = consumer
        if self.type is SubscriptionType.FAILOVER:
            # Switch the active consumer after the answer to SUBSCRIBE has been written.
            asyncio.get_running_loop().call_soon(self._switch, consumer)
        return consumer

    def _switch(self, joined: Consumer | None) -> None:
        told = self.consumers.values() if self._dispatcher.run_due(0) else [joined] if joined else ()
        for consumer in list(told):
            consumer.tell_active(consumer.dispatch is self._dispatcher.active)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        if self.consumers.pop(consumer.key, None) is not None:
            self._dispatcher.detach(consumer.dispatch)
            self._switch(None)
            if not self.consumers:
                self.topic.forget_subscription(self)

    def close_consumers(self, reason: str) -> None:
        """Close every consumer."""
        for consumer in list(self.consumers.values()):
            consumer.closed_by_broker(reason)
            self.remove_consumer(consumer)

    # -- dispatch ------------------------------------------------------------------------------------------------

    def deliver(self, entries: Sequence[StoredEntry], now_ms: int) -> None:
        """Send entries to consumers that can receive them now, and drop the other entries."""
        at = 0
        while at < len(entries):
            most = len(entries) if self.dispatch_limit is None else self._allowed(now_ms)
            plan = self._dispatcher.next_read() if most else None
            if plan is None:
                break
            some = entries[at : at + min(most, plan.max_entries)]
            at += len(some)
            wanted = whole_entries(some, self.type)
            assignments, unassigned = self._dispatcher.assign(wanted, plan, now_ms)
            for assignment in assignments:
                # No entry stays pending, so tell the dispatcher that these entries are acked.
                for each in assignment.entries:
                    self._dispatcher.acked(each.position, each.messages_remaining, True, assignment.consumer)
                consumer = self.consumers.get(assignment.consumer.key)
                if consumer is not None:
                    self._send(consumer, [each.entry for each in assignment.entries], now_ms)
            for each in unassigned:
                self._dispatcher.discard(each.position)
                self.messages_dropped += each.messages_remaining
        self.messages_dropped += sum(each.messages for each in entries[at:])

    def _allowed(self, now_ms: int) -> int:
        limit = self.dispatch_limit
        return 0 if limit is None or limit.wait_ms(now_ms) else limit.entries(now_ms)

    def _send(self, consumer: Consumer, entries: list[StoredEntry], now_ms: int) -> None:
        deliveries = [Delivery(entry, 0, None) for entry in entries]
        if self.dispatch_limit is not None:
            self.dispatch_limit.sent(deliveries, now_ms)
        for entry in entries:
            self.messages_out += entry.messages
            if entry.messages > 1:
                self._batches[Position(entry.ledger_id, entry.entry_id)] = entry.messages
                if len(self._batches) > _BATCHES_REMEMBERED:
                    del self._batches[next(iter(self._batches))]
        consumer.deliver(deliveries, now_ms)

    def rates_changed(self) -> None:
        """Apply the topic's new dispatch rates. Messages above the rates are dropped."""
        self.dispatch_limit = DispatchLimit.of(
            self.topic.policies,
            self.topic.dispatch_rate,
            now_ms=self._clock.now_ms(),
            replaces=self.dispatch_limit,
        )

    # -- requests of consumers -----------------------------------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add permits from a client. Raises InvalidFlow if `permits` is below 1."""
        self._dispatcher.flow(consumer.dispatch, permits)
        consumer.flowed(self._clock.now_ms())

    def pump(self) -> None:
        """Do nothing, because no message waits."""

    def ack(
        self,
        consumer: Consumer,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None,
        validation_error: str | None,
        returns_permits: bool,
    ) -> None:
        """Call `on_durable` at once, because nothing is stored.

        If `returns_permits` is true, the client discarded the entries and granted only one permit for each entry. This
        method adds the permits for the other messages of each batch.
        """
        if returns_permits:
            for each in acks:
                messages = self._batches.pop(each.position, 1)
                if messages > 1:
                    self._dispatcher.flow(consumer.dispatch, messages - 1)
        if on_durable is not None:
            on_durable(None)

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        """Do nothing, because no message can be delivered again."""

    def redeliver_at(self, consumer: Consumer, positions: Sequence[Position], due_ms: int) -> None:
        """Do nothing, because no message can be delivered again."""

    def redelivery_count(self, position: Position) -> int:
        """Return 0, because no message is redelivered."""
        return 0

    def has_ledger(self, ledger_id: int) -> bool:
        """Return False, because no message is stored."""
        return False

    def has_pending(self, consumer: Consumer, position: Position) -> bool:
        """Return False, because a sent message counts as acked."""
        return False

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """Raise NotAllowed, because nothing is stored."""
        raise NotAllowed(f"{self.topic.name} keeps no messages")

    def acker(self, consumer: Consumer) -> Callable[[Sequence[AckRequest]], None]:
        """Return a function that does nothing."""
        return lambda acks: None

    def letter_written(self, consumer: Consumer, position: Position, event: StoryEvent, topic: str) -> None:
        """Do nothing, because the broker keeps no record of non-persistent messages."""

    async def seek_position(self, consumer: Consumer, position: Position, remaining: int | None) -> None:
        """Raise NotAllowed, because nothing is stored."""
        raise self._nowhere_to_seek()

    async def seek_time(self, consumer: Consumer, time_ms: int) -> None:
        """Raise NotAllowed, because nothing is stored."""
        raise self._nowhere_to_seek()

    def _nowhere_to_seek(self) -> NotAllowed:
        return NotAllowed(f"{self.topic.name} keeps no messages, so there is nowhere to seek to")

    async def last_message(self, consumer: Consumer) -> LastMessage:
        """Return the answer for a topic without messages."""
        return LastMessage(position=Position(-1, -1), number_in_batch=0, mark_delete=EARLIEST)

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """Close all consumers, which ends the subscription.

        Raises MetadataInvalid if other consumers are attached and `force` is False.
        """
        if len(self.consumers) > 1 and not force:
            raise MetadataInvalid(
                f"subscription {self.name} has other consumers ({len(self.consumers) - 1}); close them or use force"
            )
        for other in list(self.consumers.values()):
            if other is not consumer:
                other.closed_by_broker("the subscription is removed")
                self.remove_consumer(other)
        consumer.detach()
