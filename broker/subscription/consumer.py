"""The broker's side of one attached consumer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.errors import ConsumerNotFound
from broker.core.subscription.departure import DepartureCause
from broker.core.subscription.story_rows import StoryEvent
from broker.subscription.admission import splits_batches
from broker.subscription.machine.state import Member
from broker.subscription.requests import ConsumerStatistics

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

__all__ = ["Consumer", "ConsumerRates", "DueFilter"]

logger = logging.getLogger(__name__)

_DECRYPTION_ERROR = "DECRYPTION_ERROR"
DueFilter: TypeAlias = Callable[[Sequence["Due"]], "list[Position]"]


class ConsumerSubscription(Protocol):
    """The part of a subscription that consumers use."""

    @property
    def topic_name(self) -> TopicName: ...
    @property
    def backlog_entries(self) -> int: ...
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
    def has_ledger(self, ledger_id: int) -> bool: ...
    def has_pending(self, consumer: Consumer, position: Position) -> bool: ...
    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]: ...
    def acker(self, consumer: Consumer) -> Callable[[Sequence[AckRequest]], None]: ...
    def letter_written(
        self, consumer: Consumer, position: Position, event: StoryEvent, topic: str
    ) -> None: ...
    async def seek_position(self, consumer: Consumer, position: Position, remaining: int | None) -> None: ...
    async def seek_time(self, consumer: Consumer, time_ms: int) -> None: ...
    async def last_message(self, consumer: Consumer) -> LastMessage: ...
    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None: ...
    def remove_consumer(self, consumer: Consumer) -> None: ...


class ConsumerRates(Protocol):
    """The part of the topic's rates that consumers use."""

    def consumer_per_s(self, consumer: Consumer) -> tuple[float, float, float]:
        """Return the consumer's rates per second: received, acked and redelivered messages."""


class Consumer(Member):
    """One attached consumer."""

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
        # Do not keep the schema, because a schema may take a megabyte.
        super().__init__(dispatch, replace(request, schema=None), now_ms, address=identity.address)
        self.identity = identity
        self.sink = sink
        self.is_open = True
        self.epoch = request.epoch  # None means the client uses no epochs
        self.due_filter: DueFilter | None = None
        # The departure fields are valid only after the consumer is closed.
        self.departure = DepartureCause.LOST
        self.departure_detail = ""
        self._subscription = subscription
        self._splits_batches = splits_batches(identity)

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition that this consumer reads."""
        return self._subscription.topic_name

    @property
    def subscription_type(self) -> SubscriptionType:
        """The subscription type that the client asked for."""
        return self.request.type

    def statistics(self, rates: ConsumerRates) -> ConsumerStatistics:
        """Return the statistics of the consumer."""
        out_per_s, acked_per_s, redelivered_per_s = rates.consumer_per_s(self)
        average_bytes = self.bytes_out / self.messages_out if self.messages_out else 0.0
        return ConsumerStatistics(
            connected_ms=self.connected_ms,
            permits=self.dispatch.permits.balance,
            unacked_messages=0 if self.subscription_type.single_active else self.dispatch.unacked_messages,
            is_blocked=self.dispatch.blocked,
            backlog_entries=self._subscription.backlog_entries,
            messages_out_per_s=out_per_s,
            bytes_out_per_s=out_per_s * average_bytes,
            messages_redelivered_per_s=redelivered_per_s,
            messages_acked_per_s=acked_per_s,
        )

    def flow(self, permits: int) -> None:
        """Grant permits. Raises InvalidFlow if `permits` is below 1."""
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
        """Acknowledge entries. Safe to repeat.

        `on_durable` is called once, even if the ack fails.

        If `validation_error` is given, the client discarded the entries. A Pulsar client then grants only one permit
        for each entry, so this method grants the permits for the other messages of each batch. It grants none if
        `permits_settled` is True or if the client could not decrypt the entries.
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
            on_durable(
                ConsumerNotFound(
                    f"consumer {self.name} is closed; its unacknowledged messages are delivered again"
                )
            )

    def redeliver(self, positions: Sequence[Position] | None, *, epoch: int | None = None) -> None:
        """Redeliver these entries. If `positions` is None, redeliver all entries pending at this consumer."""
        if epoch is not None and (self.epoch is None or epoch > self.epoch):
            self.epoch = epoch
        if self.is_open:
            self._subscription.redeliver(self, positions)

    def redeliver_at(self, positions: Sequence[Position], due_ms: int) -> None:
        """Redeliver these entries at `due_ms`, unless they are acked before that time."""
        if self.is_open:
            self._subscription.redeliver_at(self, positions, due_ms)

    def filter_due(self, due_filter: DueFilter) -> None:
        """Let `due_filter` choose which overdue messages are redelivered.

        Messages that `due_filter` does not choose stay pending at this consumer, without a deadline.
        """
        self.due_filter = due_filter

    def still_due(self, due: Sequence[Due]) -> list[Position]:
        """Return the positions of the overdue entries that must be redelivered."""
        if self.due_filter is not None:
            try:
                return self.due_filter(due)
            except Exception:
                # Redeliver all these messages now, because no timer would redeliver them later.
                logger.exception(
                    "consumer %s: deciding about overdue messages failed; all are redelivered",
                    self.name,
                    extra=self._log_fields(),
                )
        return [each.position for each in due]

    def redelivery_count(self, position: Position) -> int:
        """Return the redelivery count of an entry. On Exclusive and Failover, the count is always 0."""
        return self._subscription.redelivery_count(position)

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether this ledger belongs to the topic and is not trimmed."""
        return self._subscription.has_ledger(ledger_id)

    def has_pending(self, position: Position) -> bool:
        """Return whether the entry was sent to this consumer and is not fully acked."""
        return self._subscription.has_pending(self, position)

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """Read an entry and the bitset of its unacked messages. The bitset is None if no message is acked.

        Raises BrokerError if the entry is already acked or cannot be read.
        """
        return await self._subscription.read_entry(position)

    def acker(self) -> Callable[[Sequence[AckRequest]], None]:
        """Return a function that acks entries of this consumer, even after the consumer is detached.

        After a cursor reset, the function does nothing.
        """
        return self._subscription.acker(self)

    def letter_written(self, position: Position, topic: str, *, is_retry: bool) -> None:
        """Record that an entry was written to a retry-letter or dead-letter topic."""
        event = StoryEvent.RETRY_LETTERED if is_retry else StoryEvent.DEAD_LETTERED
        self._subscription.letter_written(self, position, event, topic)

    async def seek_position(self, position: Position, remaining: int | None) -> None:
        """Close the subscription's consumers and move the cursor to `position`. Cancelling does not stop the move.

        For Failover, only the active consumer and this consumer are closed. Raises BrokerError on failure.
        """
        await self._subscription.seek_position(self, position, remaining)

    async def seek_time(self, time_ms: int) -> None:
        """Close the subscription's consumers and move the cursor to the first entry appended at or after `time_ms`.

        Cancelling can stop the search for this entry, but not the move.
        """
        await self._subscription.seek_time(self, time_ms)

    async def last_message(self) -> LastMessage:
        """Return the last message that this consumer can get, and the mark-delete position."""
        return await self._subscription.last_message(self)

    async def unsubscribe(self, *, force: bool) -> None:
        """Delete the subscription. Cancelling does not stop the deletion.

        Raises BrokerError, for example if other consumers are attached and `force` is False.
        """
        await self._subscription.unsubscribe(self, force=force)

    def writable_again(self) -> None:
        """Resume sending, because the connection accepts data again."""
        if self.is_open:
            self.dispatch.writable = True
            self._subscription.pump()

    def stop_delivery(self) -> None:
        """Stop delivery, because the connection is lost. The caller must then call `detach`."""
        self.dispatch.writable = False

    def detach(self, cause: DepartureCause = DepartureCause.LOST) -> None:
        """Detach the consumer. Its unacked messages are delivered again. Safe to repeat."""
        if self.is_open:
            self.is_open = False
            self.departure = cause
            self._subscription.remove_consumer(self)

    def closed_by_broker(self, reason: str) -> None:
        """Close this consumer and notify its client. Safe to repeat.

        The caller must remove the consumer from the subscription.
        """
        if self.is_open:
            self.is_open = False
            self.departure, self.departure_detail = DepartureCause.BROKER, reason
            try:
                self.sink.on_consumer_closed(reason)
            except Exception:
                logger.exception(
                    "consumer %s: its client was not notified that it is closed",
                    self.name,
                    extra=self._log_fields(),
                )

    def tell_active(self, is_active: bool) -> None:
        """Tell the client whether this consumer is active on a Failover subscription."""
        if self.is_open:
            try:
                self.sink.on_active_change(is_active)
            except Exception:
                logger.exception(
                    "consumer %s: its client was not notified which consumer is active",
                    self.name,
                    extra=self._log_fields(),
                )

    def reached_end(self) -> None:
        """Tell the client that the topic is terminated and fully acked."""
        try:
            self.sink.on_end_of_topic()
        except Exception:
            logger.exception(
                "consumer %s: its client was not notified that the topic has ended",
                self.name,
                extra=self._log_fields(),
            )

    def deliver(self, deliveries: list[Delivery], now_ms: int) -> None:
        """Hand these deliveries to the sink.

        If there are batches and the client is too old to read them, deliver the other entries and close the connection.
        """
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
        self.entries_out += len(deliveries)
        self.messages_out += messages
        self.bytes_out += size_bytes
        self.first_delivery_ms = self.first_delivery_ms or now_ms
        self.last_delivery_ms = now_ms
        try:
            self.sink.deliver(deliveries)
            self.dispatch.writable = self.sink.is_writable()
        except Exception:
            logger.exception(
                "consumer %s: delivery failed; the consumer is closed", self.name, extra=self._log_fields()
            )
            self.closed_by_broker(
                "delivery to this consumer failed inside the broker; the broker's log says why"
            )
            self._subscription.remove_consumer(self)
        if batches:
            self._end_connection(batches[0])

    def _log_fields(self) -> dict[str, str]:
        return {"topic": str(self.topic_name), "consumer": self.name, "client": self.identity.address}

    def _end_connection(self, batch: Delivery) -> None:
        reason = (
            f"consumer {self.name} speaks protocol version {self.identity.protocol_version} and cannot split the batch"
            f" {batch.entry.ledger_id}:{batch.entry.entry_id} of {self.topic_name}; use a newer client"
        )
        logger.warning("%s", reason, extra=self._log_fields())
        self.is_open = False
        self.departure, self.departure_detail = DepartureCause.INCOMPATIBLE, reason
        self.sink.close_connection(reason)
        self._subscription.remove_consumer(self)
