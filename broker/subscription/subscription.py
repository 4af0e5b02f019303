"""One subscription in its topic's owner: who is attached, what comes again and when (design 6, semantics 2-3).

Delivery is in dispatch/loop.py, acks in acks.py, moves of the cursor in moves.py. Over 400 lines: what
joins, leaves, redelivery and moves do to the cursor, the read position and the deadlines must be read together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import psycopg

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.state import AckOverlay, CursorFlush
from broker.core.dispatchers.base import Dispatcher, ReadEntry
from broker.core.dispatchers.key_shared_policy import AUTO_SPLIT, KeySharedPolicy
from broker.core.errors import (
    ConsumerNotFound,
    MetadataInvalid,
    NotAllowed,
    PersistenceFailed,
)
from broker.core.ledgers.message_index import IndexMissing
from broker.core.position import Position
from broker.core.subscription.delivery_deadlines import DeliveryDeadlines
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.types import SubscriptionType
from broker.log.reader import GapInLog
from broker.subscription.acks import AckIntake
from broker.subscription.attaching import Attaching, new_dispatcher
from broker.subscription.consumer import Consumer
from broker.subscription.dispatch.filtering import DispatchFilter
from broker.subscription.dispatch.loop import DispatchLoop
from broker.subscription.dispatch.rates import DispatchLimit, RatePair
from broker.subscription.end_of_topic import tell_end_of_topic
from broker.subscription.failover import ActiveConsumer
from broker.subscription.limits import unacked_limits
from broker.subscription.moves import CursorMove
from broker.subscription.requests import AckRequest, LastMessage

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.entry import StoredEntry
    from broker.core.topic_name import TopicName
    from broker.subscription.refused_cursors import RefusedCursor
    from broker.subscription.requests import ConsumerSink, DurableCallback, SubscribeRequest
    from broker.topics.topic import Topic

__all__ = ["Subscription"]

log = logging.getLogger(__name__)


class Subscription:
    """A cursor, a dispatcher and the consumers attached. Touched by the event loop only.

    `subscription_id` is None for a reader's own cursor, which is not stored and goes with its last consumer.
    """

    def __init__(
        self, *, topic: Topic, subscription_id: int | None, name: str, type_: SubscriptionType, cursor: Cursor
    ):
        self.topic = topic
        self.log = topic.log
        self.reader = topic.reader
        self._id = subscription_id
        self.name = name
        self.type = type_
        self.cursor = cursor
        self.consumers: dict[int, Consumer] = {}
        self.read_position = cursor.read_from()
        self.moves = CursorMove(self)
        self.deadlines = DeliveryDeadlines()
        self.filter = DispatchFilter(self)
        self.validation_errors: dict[str, int] = {}
        self.invalid_acks = 0
        self.ignored_acks = 0
        self.option_warnings: dict[str, int] = {}
        self.messages_out = 0
        self.messages_acked = 0
        self.messages_redelivered = 0
        self.messages_expired = 0
        self.stored_mark_delete = cursor.mark_delete  # where a crash would put the cursor back to
        self._unstored_since_s = 0.0  # monotonic time of the first ack that no flush has taken; 0 = none
        self._flushing_since_s = 0.0  # the same of the acks that a flush has taken
        self.gap: str = ""
        self.undo_until_ms = 0  # acks at or below the last act's mark-delete are recorded until then
        self.last_used_ms = topic.services.clock.now_ms()  # when the last consumer left
        self.undo_act_id = 0  # that act
        self.is_paused = False  # by an operator: nothing is dispatched, acks go on
        self.is_deleted = False
        self._counts = RedeliveryCounts(every_send=topic.services.settings.counts_every_send)
        self._dispatcher = self._new_dispatcher(AUTO_SPLIT)
        self.dispatch_limit: DispatchLimit | None = None
        self._loop = DispatchLoop(self)
        self._acks = AckIntake(self)
        self._attaching = Attaching(self)
        self.active = ActiveConsumer(self)

    @property
    def is_durable(self) -> bool:
        """Its cursor is stored."""
        return self._id is not None

    @property
    def subscription_id(self) -> int:
        """The stored row's id; only for durable ones."""
        if self._id is None:
            raise ValueError(f"{self.name} is not durable: it has no row")
        return self._id

    @property
    def topic_name(self) -> TopicName:
        """The topic, or the partition, that it reads."""
        return self.log.name

    @property
    def refusal(self) -> RefusedCursor | None:
        """Why the database does not take the cursor; None when it does."""
        return self.topic.services.flusher.refusal_of(self)

    @property
    def is_stored(self) -> bool:
        """Whether PostgreSQL has everything that the cursor says."""
        return self.topic.services.flusher.is_settled(self)

    @property
    def dispatcher(self) -> Dispatcher:
        """Who gets what."""
        return self._dispatcher

    def loaded(self, *, last_used_ms: int, is_paused: bool) -> None:
        """What its row says beside the cursor; 0 = nobody knows when it was used last."""
        self.last_used_ms = last_used_ms or self.last_used_ms
        self.is_paused = is_paused

    def pause(self) -> None:
        """An operator's act: nothing is dispatched from here on; acks go on."""
        self.is_paused = True

    def resume(self) -> None:
        """Dispatch again."""
        self.is_paused = False
        self.pump()

    def mark_dirty(self) -> None:
        """The cursor was changed by others than its consumers: store it."""
        self.topic.services.flusher.mark(self)

    # -- attach and detach ---------------------------------------------------------------------------------------

    async def attach(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Add a consumer (semantics 3.1), after a seek under way.

        Raises ConsumerBusy, SubscriptionBusy, NotAllowed, ConsumerAssignFailed, ServiceNotReady.
        """
        return await self._attaching.attach(request, identity, sink)

    def attached(self, consumer: Consumer, *, is_first: bool) -> None:
        """A consumer passed the gate; with `is_first` nobody was here before it."""
        self.consumers[consumer.key] = consumer
        if is_first:
            self.read_position = self.cursor.read_from()
        self.active.joined(consumer)
        self._warn(consumer.request.warnings)
        self.topic.services.reporter.changed(self)

    def use_type(self, type_: SubscriptionType, key_shared: KeySharedPolicy) -> None:
        """Give entries out by another type from now on; nobody is connected."""
        self.type = type_
        if type_.single_active:
            self._counts.clear()  # there nothing is counted (semantics 3.7), nor acks taken off
        self._dispatcher = self._new_dispatcher(key_shared)

    def _new_dispatcher(self, key_shared: KeySharedPolicy) -> Dispatcher:
        return new_dispatcher(
            self.topic, self.type, key_shared, is_durable=self.is_durable, counts=self._counts
        )

    def policies_changed(self) -> None:
        """What new limits let through goes out at once."""
        limits = unacked_limits(self.topic, is_durable=self.is_durable)
        self._dispatcher.limit_unacked(
            per_subscription=limits.per_subscription, per_consumer=limits.per_consumer
        )
        self.pump()

    def _warn(self, warnings: Sequence[str]) -> None:
        for text in warnings:
            if text not in self.option_warnings:
                log.warning("%s, subscription %s: %s", self.topic.name, self.name, text)
            self.option_warnings[text] = self.option_warnings.get(text, 0) + 1

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer is gone; what it held goes to the others, or is read again by the next to come."""
        if self.consumers.pop(consumer.key, None) is None:
            return
        now_ms = self.last_used_ms = self.topic.last_used_ms = self.topic.services.clock.now_ms()
        self._forget_deadlines(self._dispatcher.detach(consumer.dispatch, now_ms))
        self.active.changed()
        if not self.consumers:
            self._forget_all_deadlines()
            self.read_position = self.cursor.read_from()
            if not self.is_durable and not self.moves.is_moving:  # one that seeks comes back to its new place
                self.topic.forget_subscription(self)
        self.topic.services.reporter.consumer_gone(self, consumer)
        self.pump()

    def served_consumers(self) -> list[Consumer]:
        """All of them, but on Failover the active one: whom a reset closes (semantics 2.2)."""
        active = self._dispatcher.active
        return [each for each in self.consumers.values() if active is None or each.dispatch is active]

    def close_consumers(self, reason: str, *, standby: bool = True) -> int:
        """Let every consumer go; each subscribes again by itself. Returns how many there were.

        Without `standby`, those of a Failover subscription that are not active stay: nothing was sent to them.
        """
        consumers = list(self.consumers.values()) if standby else self.served_consumers()
        for consumer in consumers:
            consumer.closed_by_broker(reason)
            self.remove_consumer(consumer)
        return len(consumers)

    # -- dispatch ------------------------------------------------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Permits from a client."""
        self._dispatcher.flow(consumer.dispatch, permits)
        consumer.last_flow_ms = self.topic.services.clock.now_ms()
        self.pump()

    def pump(self) -> None:
        """Deliver what can be delivered now. Cheap when there is nothing to do; safe to call at any time."""
        self._loop.pump()

    def load_counts_then_pump(self, missing: IndexMissing) -> None:
        """What was found cannot be settled before these counts are in memory; it is read again then."""
        self._loop.load_counts_then_pump(missing)

    def stop_reading(self) -> None:
        """The topic goes away: a read would be repeated for as long as the database is."""
        self._loop.stop_reading()

    def rates_changed(self) -> None:
        """The topic's dispatch rates are others now."""
        policies, clock = self.topic.policies, self.topic.services.clock
        own = RatePair.of(
            policies.subscription_dispatch_rate_messages,
            policies.subscription_dispatch_rate_bytes,
            clock.now_ms(),
        )
        self.dispatch_limit = DispatchLimit.of(
            clock, (self.topic.dispatch_rate, own), pump=self.pump, replaces=self.dispatch_limit
        )
        self.pump()

    # -- acks ----------------------------------------------------------------------------------------------------

    def ack(
        self,
        consumer: Consumer,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None,
        validation_error: str | None,
        returns_permits: bool = False,
    ) -> None:
        """See `AckIntake.ack`."""
        self._acks.ack(
            consumer,
            acks,
            cumulative=cumulative,
            on_durable=on_durable,
            validation_error=validation_error,
            returns_permits=returns_permits,
        )

    def ack_waits(self) -> None:
        """A consumer's ack has changed the cursor in memory."""
        if not self._unstored_since_s:
            self._unstored_since_s = time.monotonic()

    async def acks_settled(self) -> None:
        """See `AckIntake.settled`."""
        await self._acks.settled()

    def take_dirty(self) -> CursorFlush | None:
        """What the flusher has to store."""
        self._flushing_since_s, self._unstored_since_s = self._unstored_since_s, 0.0
        return None if self.is_deleted else self.cursor.take_dirty()

    def put_back(self, flush: CursorFlush) -> None:
        """Storing it failed."""
        self.cursor.put_back(flush)
        self._unstored_since_s = self._flushing_since_s or self._unstored_since_s

    def stored(self, flush: CursorFlush) -> None:
        """It is durable."""
        self.stored_mark_delete = flush.mark_delete
        if self._flushing_since_s:
            latency_s = time.monotonic() - self._flushing_since_s
            self.topic.services.instruments.ack_latency.observe(latency_s)

    # -- redelivery ----------------------------------------------------------------------------------------------

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        """A client's request, a due negative ack or an ack timeout (semantics 3.7)."""
        if positions is not None and not positions:
            return
        if len(self.deadlines) and not self.type.single_active:
            # Of what it holds only: another consumer's clock goes on.
            held = consumer.dispatch.pending if positions is None else positions
            self._forget_deadlines([each for each in held if self._dispatcher.holds(consumer.dispatch, each)])
        if self._dispatcher.redeliver(consumer.dispatch, positions):
            self.rewind()
        self.topic.services.reporter.changed(self)
        self.pump()

    def rewind(self) -> None:
        """Read on from the entry after mark-delete: everything unacked comes again, and is given its time anew."""
        self._forget_all_deadlines()
        self.read_position = self.cursor.read_from()

    def redeliver_at(self, consumer: Consumer, positions: Iterable[Position], due_ms: int) -> None:
        """Negative acks of a face whose client has no tracker of its own."""
        if due_ms <= self.topic.services.clock.now_ms():
            self.redeliver(consumer, list(positions))
            return
        for position in positions:
            # Only what it holds: nobody may fill the wheel with positions of his own invention.
            if self.holds(consumer, position):
                self.deadlines.nack(position, due_ms)
        self.topic.services.deadlines.watch(self, due_ms)
        self.topic.services.reporter.changed(self)

    def run_due(self, now_ms: int) -> int:
        """Everything of this subscription that time drives; how many entries. Running it twice does no harm."""
        self.active.run_due(now_ms)
        return self.redeliver_due(now_ms) + self.filter.release_due(now_ms)

    def next_due_ms(self) -> int | None:
        """The nearest deadline; None = nothing waits for time."""
        dues = (self.deadlines.next_due_ms(), self.filter.next_due_ms(), self._dispatcher.due_ms)
        return min((due for due in dues if due is not None), default=None)

    def replay(self, positions: Iterable[Position]) -> None:
        """What was passed over is sent now, unless it is acked by now or is yet to be read."""
        if self.consumers:
            self._dispatcher.replay(
                position
                for position in positions
                if position < self.read_position and not self.cursor.is_acked(position)
            )
        self.pump()

    def forget(self, position: Position) -> None:
        """The broker itself acked an entry."""
        self._dispatcher.discard(position)
        if len(self.deadlines):
            self.deadlines.cancel(position)

    def redeliver_due(self, now_ms: int) -> int:
        """Take back every delivery whose deadline has passed; how many. Running it twice does no harm."""
        due = [each for each in self.deadlines.pop_due(now_ms) if not self.cursor.is_acked(each.position)]
        if not due:
            return 0
        taken = 0
        for consumer in list(self.consumers.values()):
            held = [each for each in due if self._dispatcher.holds(consumer.dispatch, each.position)]
            if not held:
                continue
            taken += len(held)
            positions = consumer.still_due(held)
            if positions:  # an empty list must not become a request for everything (S4.31)
                # Single messages cannot come again without breaking the order (S4.24): all unacked ones do.
                self.redeliver(consumer, None if self.type.single_active else positions)
        return taken

    def _forget_deadlines(self, positions: Iterable[Position]) -> None:
        if len(self.deadlines):
            for position in positions:
                self.deadlines.cancel(position)

    def _forget_all_deadlines(self) -> None:
        self.filter.forget()
        if len(self.deadlines):
            self.deadlines.cancel_all()

    def schedule_timeouts(self, consumer: Consumer, entries: Sequence[ReadEntry], now_ms: int) -> None:
        """Start the clock of entries that are being sent, where the broker keeps it for the client."""
        request = consumer.request
        if not request.ack_timeout_ms:
            return
        tick_ms, backoff_ms = request.ack_timeout_tick_ms, request.ack_timeout_backoff
        timeout_at_ms = now_ms + request.ack_timeout_ms
        soonest_ms = None
        for each in entries:
            due_ms = timeout_at_ms
            if backoff_ms is not None:
                due_ms += backoff_ms(self._dispatcher.redelivery_count(each.position))
            due_ms = -(-due_ms // tick_ms) * tick_ms
            self.deadlines.time_out(each.position, due_ms)
            soonest_ms = due_ms if soonest_ms is None else min(due_ms, soonest_ms)
        if soonest_ms is not None:
            self.topic.services.deadlines.watch(self, soonest_ms)

    def redelivery_count(self, position: Position) -> int:
        """How often redelivery of an entry was asked for."""
        return self._dispatcher.redelivery_count(position)

    def holds(self, consumer: Consumer, position: Position) -> bool:
        """Whether a consumer was sent an entry and some of it is unacked."""
        return self._dispatcher.holds(consumer.dispatch, position) and not self.cursor.is_acked(position)

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """See `Consumer.read_entry`."""
        entry = self.topic.log.cached_entry(position)
        if entry is None:
            try:
                found = await self.topic.reader.read_chosen([position])
            except (GapInLog, psycopg.Error) as error:
                raise PersistenceFailed(
                    f"reading {position.ledger_id}:{position.entry_id}: {error}"
                ) from error
            if not found:
                raise NotAllowed(f"message {position.ledger_id}:{position.entry_id} is not stored any more")
            (entry,) = found
        if self.cursor.is_acked(position):
            raise NotAllowed(f"message {position.ledger_id}:{position.entry_id} is acknowledged already")
        return entry, self.cursor.remaining_of(position)

    def acker(self, consumer: Consumer) -> Callable[[Sequence[AckRequest]], None]:
        """See `Consumer.acker`."""
        version = self.cursor.version

        def ack(acks: Sequence[AckRequest]) -> None:
            if self.cursor.version == version and not self.is_deleted and self.topic.is_open:
                self.ack(consumer, acks, cumulative=False, on_durable=None, validation_error=None)

        return ack

    # -- positions -----------------------------------------------------------------------------------------------

    async def last_message(self) -> LastMessage:
        """For hasMessageAvailable (protocol 3.10)."""
        position = self.topic.log.ledgers.last_position()
        if position.entry_id < 0:
            return LastMessage(position=Position(-1, -1), batch_size=0, mark_delete=self.cursor.mark_delete)
        entry = self.topic.log.cached_entry(position)
        if entry is None:
            (entry,) = await self.topic.reader.read_chosen([position])
        return LastMessage(
            position=position,
            batch_size=entry.messages if entry.is_batch else 0,
            mark_delete=self.cursor.mark_delete,
        )

    async def seek_position(self, consumer: Consumer, position: Position, remaining: int | None) -> None:
        """A client's seek; written to the act log like an operator's reset. Cancelling it does not stop it."""
        self._require(consumer)
        await self.topic.services.finish(self.moves.seek(consumer, position, remaining))

    async def seek_time(self, consumer: Consumer, time_ms: int) -> None:
        """A client's seek by time."""
        self._require(consumer)
        position = await self.topic.reader.position_at_time(time_ms)
        await self.topic.services.finish(self.moves.seek(consumer, position, None))

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """A client's unsubscribe. Cancelling it does not stop it."""
        self._require(consumer)
        if len(self.consumers) > 1 and not force:
            raise MetadataInvalid(
                f"{len(self.consumers) - 1} other consumers use subscription {self.name}; close them or use force"
            )
        await self.topic.services.finish(self.moves.delete(consumer))

    def record_for_undo(self, act_id: int, until_ms: int, recorded: AckOverlay) -> None:
        """From now on remember acks of what an act passed, until it cannot be undone any more."""
        self.cursor.start_undo_overlay(recorded)
        self.undo_act_id = act_id
        self.undo_until_ms = until_ms

    def after_move(self) -> None:
        """The cursor is somewhere else: forget what was pending there and read from the new place."""
        self._dispatcher.moved(self.cursor.mark_delete)
        self.gap = ""  # perhaps it has been passed, by an act that says so; else the next read finds it again
        start = self.cursor.read_from()
        # Skip and clear keep consumers, and what these hold beyond the new mark-delete must not be read again; a reset
        # keeps none but Failover's standby ones, who hold nothing.
        stays = bool(self.consumers) and not self.moves.ignores_acks
        self.read_position = max(self.read_position, start) if stays else start
        self.topic.services.reporter.changed(self)
        if self.topic.is_terminated:
            tell_end_of_topic(self)

    def act_passed(self, position: Position, left: int) -> None:
        """An act acked an entry beyond mark-delete but for the members `left`: whoever holds it holds no more than
        these, and of one that is done nothing is delivered again.
        """
        dispatcher = self._dispatcher
        for consumer in dispatcher.consumers:
            passed = consumer.pending.get(position) - left.bit_count()
            if passed > 0:
                dispatcher.acked(position, passed, not left, consumer)
        if not left:
            dispatcher.discard(position)
            self.deadlines.cancel(position)

    def _require(self, consumer: Consumer) -> None:
        if not consumer.is_open:
            raise ConsumerNotFound(f"consumer {consumer.name} is closed")
