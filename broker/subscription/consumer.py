"""The broker's side of one attached consumer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import ConsumerNotFound
from broker.subscription.admission import splits_batches
from broker.subscription.machine.state import Member

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.entry import StoredEntry
    from broker.core.position import Position
    from broker.core.subscription.delivery_deadlines import Due
    from broker.core.subscription.types import SubscriptionType
    from broker.core.topic_name import TopicName
    from broker.subscription.requests import (
        AckRequest,
        ConsumerSink,
        Delivery,
        DurableCallback,
        LastMessage,
        SubscribeRequest,
    )

__all__ = ["Consumer", "DueFilter"]

logger = logging.getLogger(__name__)

_DECRYPTION_ERROR = "DECRYPTION_ERROR"
# Sees deliveries whose deadline has passed before they are redelivered, and returns those that shall be.
DueFilter: TypeAlias = Callable[[Sequence["Due"]], "list[Position]"]


class ConsumerSubscription(Protocol):
    """A subscription as its consumers see it: `Subscription` and `NonPersistentSubscription`."""

    @property
    def topic_name(self) -> TopicName: ...
    def flow(self, consumer: Consumer, permits: int) -> None: ...
    def pump(self) -> None: ...
    def ack(
        self,
        consumer: Consumer,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None,
        validation_error: str | None,
        returns_permits: bool,
    ) -> None: ...
    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None: ...
    def redeliver_at(self, consumer: Consumer, positions: Sequence[Position], due_ms: int) -> None: ...
    def redelivery_count(self, position: Position) -> int: ...
    def holds(self, consumer: Consumer, position: Position) -> bool: ...
    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]: ...
    def acker(self, consumer: Consumer) -> Callable[[Sequence[AckRequest]], None]: ...
    async def seek_position(self, consumer: Consumer, position: Position, remaining: int | None) -> None: ...
    async def seek_time(self, consumer: Consumer, time_ms: int) -> None: ...
    async def last_message(self) -> LastMessage: ...
    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None: ...
    def remove_consumer(self, consumer: Consumer) -> None: ...


class Consumer(Member):
    """Turns a client's commands into calls on its subscription, and hands its sink what it is sent.

    A fault of the sink ends here: it is logged, and the consumer is closed when the fault lost a delivery.
    """

    def __init__(
        self,
        *,
        subscription: ConsumerSubscription,
        request: SubscribeRequest,
        identity: ClientIdentity,
        sink: ConsumerSink,
        dispatch: DispatchConsumer,
        now_ms: int,
    ) -> None:
        super().__init__(dispatch, request, now_ms)
        self.identity = identity
        self.sink = sink
        self.is_open = True
        self.epoch = request.epoch  # what its frames carry, None = its client has none
        self.due_filter: DueFilter | None = None
        self._subscription = subscription
        self._splits_batches = splits_batches(identity)

    @property
    def topic_name(self) -> TopicName:
        """The topic, or the partition, it reads."""
        return self._subscription.topic_name

    @property
    def subscription_type(self) -> SubscriptionType:
        """The type it attached with."""
        return self.request.type

    def flow(self, permits: int) -> None:
        """Grant permits, in messages. Raises InvalidFlow for 0 or less."""
        if self.is_open:
            self._subscription.flow(self, permits)

    def ack(
        self,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None = None,
        validation_error: str | None = None,
        permits_settled: bool = False,
    ) -> None:
        """Acknowledge; safe to repeat. `on_durable` is called once: when it is stored, or with what was wrong.

        `validation_error` names why the client threw the message away; it is an ack all the same. Such
        a client gives back one permit, whatever the entry cost, and the rest is granted here: but
        not with `permits_settled`, where the caller grants all of it itself, nor for what it could not decrypt, for
        which clients give back the whole batch.
        """
        if self.is_open:
            self._subscription.ack(
                self,
                acks,
                cumulative=cumulative,
                on_durable=on_durable,
                validation_error=validation_error,
                returns_permits=validation_error not in (None, _DECRYPTION_ERROR) and not permits_settled,
            )
        elif on_durable is not None:
            on_durable(ConsumerNotFound(f"consumer {self.name} is closed; what it held is delivered again"))

    def redeliver(self, positions: Sequence[Position] | None, *, epoch: int | None = None) -> None:
        """Take these back for redelivery, or with None all that this consumer holds.

        `epoch` is kept when it is higher, and goes out with every frame from now on, be the request heard or not.
        """
        if epoch is not None and (self.epoch is None or epoch > self.epoch):
            self.epoch = epoch
        if self.is_open:
            self._subscription.redeliver(self, positions)

    def redeliver_at(self, positions: Sequence[Position], due_ms: int) -> None:
        """Take these back at `due_ms`, unless they are acked before."""
        if self.is_open:
            self._subscription.redeliver_at(self, positions, due_ms)

    def filter_due(self, due_filter: DueFilter) -> None:
        """Ask `due_filter` before what is overdue is redelivered: it may make letters of some.

        What it keeps for itself stays with this consumer, without a deadline.
        """
        self.due_filter = due_filter

    def still_due(self, due: Sequence[Due]) -> list[Position]:
        """Which of its overdue deliveries are to be redelivered."""
        if self.due_filter is not None:
            try:
                return self.due_filter(due)
            except Exception:  # they have no deadline any more: without this they would wait for ever
                logger.exception("consumer %s: deciding what becomes of overdue messages", self.name)
        return [each.position for each in due]

    def redelivery_count(self, position: Position) -> int:
        """How often redelivery of an entry was asked for."""
        return self._subscription.redelivery_count(position)

    def holds(self, position: Position) -> bool:
        """Whether this consumer was sent the entry and some of it is unacked."""
        return self._subscription.holds(self, position)

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """An entry once more, from memory or the log, with the bitset of what is unacked of it, None = all.

        Raises BrokerError when it is not stored, or acked by now.
        """
        return await self._subscription.read_entry(position)

    def acker(self) -> Callable[[Sequence[AckRequest]], None]:
        """Acks of work that this consumer began: they count even when it has left meanwhile.

        Not after an act or a seek has moved the cursor: whoever moved it wants what it says now.
        """
        return self._subscription.acker(self)

    async def seek_position(self, position: Position, remaining: int | None) -> None:
        """Move the cursor so that `position` comes next; the subscription's consumers are closed first.

        Raises BrokerError when the cursor could not be moved. Not safe to cancel.
        """
        await self._subscription.seek_position(self, position, remaining)

    async def seek_time(self, publish_time_ms: int) -> None:
        """Move the cursor to the first entry appended at or after this time; otherwise like `seek_position`."""
        await self._subscription.seek_time(self, publish_time_ms)

    async def last_message(self) -> LastMessage:
        """The last stored entry and this subscription's mark-delete position."""
        return await self._subscription.last_message()

    async def unsubscribe(self, *, force: bool) -> None:
        """Remove the subscription and its cursor. Raises MetadataInvalid while others are attached, unless forced."""
        await self._subscription.unsubscribe(self, force=force)

    def writable_again(self) -> None:
        """The peer takes bytes again."""
        if self.is_open:
            self.dispatch.writable = True
            self._subscription.pump()

    def detach(self) -> None:
        """The connection is gone or the client closed the consumer; what it held is redelivered. Repeatable."""
        if self.is_open:
            self.is_open = False
            self._subscription.remove_consumer(self)

    def closed_by_broker(self, reason: str) -> None:
        """The subscription let this consumer go; the client subscribes again."""
        if self.is_open:
            self.is_open = False
            try:
                self.sink.on_consumer_closed(reason)
            except Exception:  # the others must be told too
                logger.exception("consumer %s: telling it that it is closed", self.name)

    def tell_active(self, is_active: bool) -> None:
        """Failover: whether it gets everything from now on, or nothing."""
        if self.is_open:
            try:
                self.sink.on_active_change(is_active)
            except Exception:  # the others must be told too
                logger.exception("consumer %s: telling it who is active", self.name)

    def reached_end(self) -> None:
        """The topic is terminated and everything in it is acked."""
        try:
            self.sink.on_end_of_topic()
        except Exception:  # the others must be told too
            logger.exception("consumer %s: telling it that the topic has ended", self.name)

    def deliver(self, deliveries: list[Delivery], now_ms: int) -> None:
        """Hand over what the dispatcher chose: one transport write."""
        batches: list[Delivery] = []
        if not self._splits_batches:
            batches = [each for each in deliveries if each.entry.is_batch]
            deliveries = [each for each in deliveries if not each.entry.is_batch]
        messages = size_bytes = 0
        for entry, redelivery_count, remaining in deliveries:
            count = entry.messages if remaining is None else remaining.bit_count()
            messages += count
            size_bytes += len(entry.data)
            if redelivery_count:
                self.messages_redelivered += count
        self.messages_out += messages
        self.bytes_out += size_bytes
        self.last_delivery_ms = now_ms
        try:
            self.sink.deliver(deliveries)
            self.dispatch.writable = self.sink.is_writable()
        except Exception:  # its transport is broken; what it was given goes to others
            logger.exception("consumer %s: delivery failed", self.name)
            self.closed_by_broker("delivery to it failed inside the broker; the broker's log says why")
            self._subscription.remove_consumer(self)
        if batches:
            self._end_connection(batches[0])

    def _end_connection(self, batch: Delivery) -> None:
        """It cannot read this batch, which stays unacked for somebody who can."""
        reason = (
            f"consumer {self.name} speaks protocol version {self.identity.protocol_version} and cannot split the batch"
            f" {batch.entry.ledger_id}:{batch.entry.entry_id} of {self.topic_name}; use a newer client"
        )
        logger.warning("%s", reason)
        self.is_open = False
        self.sink.close_connection(reason)
        self._subscription.remove_consumer(self)
