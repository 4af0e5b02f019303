"""One subscription, in the process that owns the topic.

An act is a change that the broker records, for example an operator's skip of messages. The delivery story records which
consumers got and acked each entry.

This file is long because it has many properties and short methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import psycopg

from broker.core.cursor.cursor import Cursor
from broker.core.cursor.state import AckOverlay
from broker.core.dispatchers.base import DispatchConsumer, Dispatcher
from broker.core.dispatchers.key_shared_policy import AUTO_SPLIT, KeySharedPolicy
from broker.core.errors import (
    ConsumerNotFound,
    NotAllowed,
    PersistenceFailed,
    ServiceNotReady,
)
from broker.core.position import Position
from broker.core.subscription.delivery_deadlines import DeliveryDeadlines
from broker.core.subscription.redelivery import RedeliveryCounts
from broker.core.subscription.story import DeliveryStory, without_acked
from broker.core.subscription.story_rows import StoryEvent
from broker.core.subscription.types import SubscriptionType, check_attach
from broker.log.reader import READ_ENTRIES, GapInLog
from broker.storage.cursors import cursors as cursor_store
from broker.subscription.admission import require_consumer_room
from broker.subscription.consumer import Consumer
from broker.subscription.last_message import LastMessages
from broker.subscription.machine.machine import SubscriptionMachine
from broker.subscription.machine.rates import DispatchLimit
from broker.subscription.machine.state import Counters, State
from broker.subscription.moves.cursor_move import CursorMove
from broker.subscription.requests import AckRequest, LastMessage
from broker.subscription.runner import SubscriptionRunner

if TYPE_CHECKING:
    from broker.core.client_identity import ClientIdentity
    from broker.core.entry import StoredEntry
    from broker.core.ledgers.message_index import Range
    from broker.core.policies import Policies
    from broker.core.topic_name import TopicName
    from broker.log.compaction.view import CompactedView
    from broker.log.delayed import DelayedMessages
    from broker.log.reader import TopicReader
    from broker.log.topic_log import TopicLog
    from broker.storage.connection import Connection
    from broker.subscription.collaborators import Storing, Surroundings
    from broker.subscription.machine.rates import RatePair
    from broker.subscription.requests import ConsumerSink, DurableCallback, SubscribeRequest
    from broker.subscription.storing.refused_cursors import RefusedCursor

__all__ = ["Subscription", "SubscriptionReporter", "SubscriptionTopic"]


class SubscriptionTopic(Protocol):
    """The properties and methods of a topic that its subscriptions use."""

    @property
    def policies(self) -> Policies:
        """The policies in force."""

    @property
    def dispatch_rate(self) -> RatePair | None:
        """The dispatch rate for all subscriptions of the topic together; None means no limit."""

    @property
    def is_terminated(self) -> bool:
        """Whether the topic accepts no more messages."""

    @property
    def log(self) -> TopicLog: ...
    @property
    def reader(self) -> TopicReader: ...
    @property
    def delayed(self) -> DelayedMessages: ...
    @property
    def compacted(self) -> CompactedView: ...
    def consumers_connected(self) -> int:
        """Return the number of consumers of all subscriptions, including readers."""

    def consumer_left(self, now_ms: int) -> None:
        """Remember that the topic was in use until `now_ms`."""

    def forget_subscription(self, subscription: Subscription) -> None:
        """Forget a subscription that was deleted, or the cursor of a reader that has left."""


class SubscriptionReporter(Protocol):
    """The reporter that keeps the console's tables up to date."""

    def subscription_changed(self, subscription: Subscription) -> None:
        """Put the subscription into the next report."""

    def consumer_gone(self, subscription: Subscription, consumer: Consumer) -> None:
        """Report that a consumer left."""


class Subscription(SubscriptionRunner):
    """A cursor, a dispatcher and the attached consumers. Use it only from the event loop."""

    def __init__(
        self,
        *,
        subscription_id: int | None,
        name: str,
        type_: SubscriptionType,
        cursor: Cursor,
        topic: SubscriptionTopic,
        storing: Storing,
        reporter: SubscriptionReporter,
        around: Surroundings,
    ) -> None:
        """If `subscription_id` is None, the cursor belongs to a reader and is not stored."""
        self._topic = topic
        self._storing = storing
        self._reporter = reporter
        log, settings = topic.log, around.settings
        is_durable = subscription_id is not None
        counts = RedeliveryCounts(every_send=settings.counts_every_send)
        story = DeliveryStory(around.story_buffer, subscription_id)
        story.use_policy(topic.policies.delivery_story, topic.policies.delivery_story_ms)
        limits = settings.unacked_limits(topic.policies, is_durable=is_durable)
        state = State(
            name=name,
            is_durable=is_durable,
            type_=type_,
            cursor=cursor,
            dispatcher=settings.new_dispatcher(
                type_,
                AUTO_SPLIT,
                topic_name=log.name,
                max_unacked=limits.per_subscription,
                counts=counts,
            ),
            counts=counts,
            story=story,
            compacted=topic.compacted,
            is_terminated=topic.is_terminated,
            now_ms=around.clock.now_ms(),
        )
        machine = SubscriptionMachine(
            state,
            topic_name=log.name.full,
            ledgers=log.ledgers,
            cached=log.cached,
            delayed=topic.delayed,
            compacted=topic.compacted,
            read_entries=READ_ENTRIES,
            filters=around.entry_filters,
            filter_delay_ms=settings.filter_delay_ms,
            batch_index_acks=settings.batch_index_acks,
        )
        super().__init__(
            machine,
            subscription_id=subscription_id,
            log=log,
            reader=topic.reader,
            compacted=topic.compacted,
            delayed=topic.delayed,
            flusher=storing.flusher,
            around=around,
            report=partial(reporter.subscription_changed, self),
            forget=self._forget_me,
        )
        self.moves = CursorMove(machine, self, storing, forget=self._forget_me)
        self._last_messages = LastMessages(log, topic.reader, topic.compacted)
        # The dead letters that the broker is publishing again. Batch index -1 means that the message is not in a batch.
        self.redriving: frozenset[tuple[Position, int]] = frozenset()
        self._ready_at: tuple[int, ...] = ()
        self._has_ready = False

    def _forget_me(self) -> None:
        self._topic.forget_subscription(self)

    @property
    def topic_name(self) -> TopicName:
        """The topic or partition that this subscription reads."""
        return self.log.name

    @property
    def backlog_entries(self) -> int:
        """The number of stored entries that are not completely acked."""
        return self.cursor.backlog_entries

    @property
    def type(self) -> SubscriptionType:
        """The type of the connected consumers. If no consumer is connected, the next consumer may change the type."""
        return self._state.type

    @property
    def cursor(self) -> Cursor:
        """The cursor. Every change except an ack must happen inside `moves.moving`."""
        return self._state.cursor

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher, which chooses a consumer for each entry."""
        return self._state.dispatcher

    @property
    def deadlines(self) -> DeliveryDeadlines:
        """The ack timeouts, and the times of redelivery after negative acks."""
        return self._state.deadlines

    @property
    def counters(self) -> Counters:
        """Counts since the topic was loaded."""
        return self._state.counters

    @property
    def advanced_ms(self) -> int:
        """When an ack last moved mark-delete, in Unix ms; 0 means never since the topic was loaded."""
        return self._state.advanced_ms

    @property
    def messages_out(self) -> int:
        """The number of messages delivered, including redeliveries."""
        return self._state.counters.messages_out

    @property
    def dispatch_limit(self) -> DispatchLimit | None:
        """The dispatch rates in force; None means no limit."""
        return self._state.limit

    @property
    def read_position(self) -> Position:
        """The position from which the log is read next."""
        return self._state.read_position

    @property
    def gap(self) -> str:
        """The missing part of the log, as text; empty means no gap. A gap stops dispatch until the cursor is moved."""
        return self._state.gap

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused the subscription."""
        return self._state.is_paused

    @property
    def delayed_entries(self) -> int:
        """The number of the topic's delayed entries that this subscription does not deliver yet."""
        return len(self._delayed) if self._delayed.passes_over(self.type) else 0

    @property
    def next_delayed_ms(self) -> int | None:
        """When the next delayed entries may be delivered, in Unix ms; 0 means now, None means unknown."""
        return self._delayed.next_due_ms()

    @property
    def waiting_messages(self) -> int:
        """An estimate of the number of messages that are neither acked nor delayed.

        The estimate is 0 only if there is no such message.
        """
        backlog, delayed = self.cursor.backlog_messages, self.delayed_entries
        if not backlog:
            return 0
        if backlog > delayed:
            return backlog - delayed
        # `next_ready` may be slow, so call it only after a change.
        acked, ledgers = self.cursor.totals, self.log.ledgers
        at = (ledgers.total_messages, acked.entries, acked.messages, self.cursor.version, delayed)
        if at != self._ready_at:
            self._ready_at = at
            self._has_ready = ledgers.contains(self._delayed.next_ready(self.cursor, self.cursor.read_from()))
        return int(self._has_ready)

    @property
    def last_used_ms(self) -> int:
        """When a consumer last left, in Unix ms. If this is unknown, when the topic was loaded."""
        return self._state.last_used_ms

    @property
    def stored_mark_delete(self) -> Position:
        """The mark-delete position that was last stored."""
        return self._state.stored_mark_delete

    @property
    def undo_until_ms(self) -> int:
        """When the latest act's undo window ends, in Unix ms; 0 means no act can be undone."""
        return self._state.undo_until_ms

    @property
    def refusal(self) -> RefusedCursor | None:
        """Why the cursor cannot be stored, or None."""
        return self._storing.flusher.refusal_of(self)

    @property
    def is_stored(self) -> bool:
        """Whether every change of the cursor is stored. Always False during a flush."""
        return self._storing.flusher.is_settled(self)

    def now_ms(self) -> int:
        """Return the time of the subscription's clock in Unix ms."""
        return self._clock.now_ms()

    # -- attach and detach ---------------------------------------------------------------------------------------

    async def attach(
        self, request: SubscribeRequest, identity: ClientIdentity, sink: ConsumerSink
    ) -> Consumer:
        """Attach a consumer.

        Raises ConsumerBusy, SubscriptionBusy, ConsumerAssignFailed, ServiceNotReady, psycopg.Error.
        """
        async with self.moves.idle():
            await self.acks_settled()
            if self.is_deleted:
                raise ServiceNotReady(f"subscription {self.name} has just been deleted; subscribe again")
            await self._let_dead_consumers_go(request)
            check_attach(request.type, current=self.type, consumers=len(self.consumers))
            await self._take_type(request)
            if not self.log.is_open:
                raise ServiceNotReady(f"{self.log.name} is moving; subscribe again")
            policies = self._topic.policies
            require_consumer_room(
                policies,
                self.log.name,
                self.name,
                consumers=len(self.consumers),
                consumers_of_topic=self._topic.consumers_connected(),
            )
            now_ms = self._clock.now_ms()
            limits = self._around.settings.unacked_limits(policies, is_durable=self.is_durable)
            dispatch = DispatchConsumer(
                key=self._around.next_key(),
                name=request.consumer_name,
                priority=request.priority,
                writable=sink.is_writable(),
                max_unacked=limits.per_consumer,
                key_shared=request.key_shared,
            )
            consumer = Consumer(
                subscription=self,
                request=request,
                identity=identity,
                sink=sink,
                dispatch=dispatch,
                now_ms=now_ms,
            )
            effects = self._machine.attach(consumer, now_ms)
            self.consumers[consumer.key] = consumer
            self.carry_out(effects)
            return consumer

    async def _let_dead_consumers_go(self, request: SubscribeRequest) -> None:
        if request.type is not SubscriptionType.EXCLUSIVE or self.type is not request.type:
            return
        for consumer in list(self.consumers.values()):
            if not await consumer.sink.is_alive():
                consumer.closed_by_broker(
                    "its connection does not answer, and another consumer wants to subscribe"
                )
                self.remove_consumer(consumer)

    async def _take_type(self, request: SubscribeRequest) -> None:
        if self.consumers:
            return
        if self.type is not request.type or request.type is SubscriptionType.KEY_SHARED:
            self._machine.use_type(request.type, self._new_dispatcher(request.type, request.key_shared))
        if self.is_durable and self.type is not self._state.stored_type:
            await self._around.tasks.finish(self._store_type())

    async def _store_type(self) -> None:
        """Store the type. Not safe to cancel."""
        self._state.stored_type = None
        sent = self.type

        async def store(connection: Connection, owner_epoch: int) -> bool | None:
            nonlocal sent
            # This write continues even if its attach is cancelled, so a later attach may have changed the type.
            sent = self.type
            return await cursor_store.set_type(
                connection,
                topic_id=self.log.topic_id,
                owner_epoch=owner_epoch,
                subscription_id=self.subscription_id,
                type_name=sent.value,
            )

        if await self._storing.epochs.write(self.log, store, what="storing a subscription's type"):
            self._state.stored_type = sent

    def _new_dispatcher(self, type_: SubscriptionType, key_shared: KeySharedPolicy) -> Dispatcher:
        settings = self._around.settings
        limits = settings.unacked_limits(self._topic.policies, is_durable=self.is_durable)
        return settings.new_dispatcher(
            type_,
            key_shared,
            topic_name=self.log.name,
            max_unacked=limits.per_subscription,
            counts=self._state.counts,
        )

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        if consumer.key in self.consumers:
            self._topic.consumer_left(self._clock.now_ms())
            self._reporter.consumer_gone(self, consumer)
            super().remove_consumer(consumer)

    def served_consumers(self) -> list[Consumer]:
        """Return the consumers that a cursor reset closes. For Failover, this is only the active consumer."""
        return [self.consumers[key] for key in self._machine.served()]

    # -- calls by the topic --------------------------------------------------------------------------------------

    def loaded(self, *, last_used_ms: int, is_paused: bool) -> None:
        """Apply the stored state. `last_used_ms` is 0 if the time is unknown."""
        self._machine.loaded(last_used_ms=last_used_ms, is_paused=is_paused)

    def policies_changed(self) -> None:
        """Apply the topic's new policies."""
        policies = self._topic.policies
        self._state.story.use_policy(policies.delivery_story, policies.delivery_story_ms)
        limits = self._around.settings.unacked_limits(policies, is_durable=self.is_durable)
        self.carry_out(
            self._machine.limit_unacked(
                per_subscription=limits.per_subscription, per_consumer=limits.per_consumer
            )
        )

    def rates_changed(self) -> None:
        """Apply the topic's new dispatch rates."""
        self.use_limit(
            DispatchLimit.of(
                self._topic.policies,
                self._topic.dispatch_rate,
                now_ms=self._clock.now_ms(),
                replaces=self.dispatch_limit,
            )
        )

    def topic_ended(self) -> None:
        """Record that the topic is terminated."""
        self.carry_out(self._machine.topic_ended())

    # -- acks by the broker itself -------------------------------------------------------------------------------

    def ack_for_broker(self, position: Position, remaining: int | None) -> None:
        """Ack the messages whose bit in `remaining` is 0. If `remaining` is None, ack the whole entry.

        Raises IndexMissing, InvalidAck.
        """
        self._machine.acks.ack_for_broker(position, remaining, self._clock.now_ms())

    def when_durable(self, callback: DurableCallback) -> None:
        """Store the cursor soon. Then call `callback` once: with None after success, or with the error."""
        self._storing.flusher.when_durable(self, callback)

    def acked_by_broker(self) -> None:
        """After `ack_for_broker`, report the acks and continue dispatch."""
        self._report()
        self.pump()

    # -- requests of operators -----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop dispatch. Acks are still accepted."""
        self._machine.pause()

    def resume(self) -> None:
        """Continue dispatch after `pause`."""
        self.carry_out(self._machine.resume())

    def after_move(self) -> None:
        """After a cursor move, forget pending entries that the cursor has passed, and read from the new position."""
        self.moves.done()

    def begin_at(self, position: Position) -> None:
        """Remember the requested position of the cursor."""
        self._state.begin_at(position)

    def place(self) -> Position:
        """Return the position after mark-delete.

        If mark-delete has not moved since `begin_at`, return the position given to `begin_at` instead.
        """
        return self._state.place()

    def unacked_through(self, position: Position) -> list[Range]:
        """Return the ranges of unacked entries up to `position`, or no ranges if the delivery story is off."""
        if not self._state.story.is_on:
            return []
        spans = self.log.ledgers.spans(self.cursor.mark_delete, position)
        return list(without_acked(self.cursor, spans))

    def expired(self, messages: int, entries: Sequence[Range]) -> None:
        """Finish a cursor move that acked expired messages."""
        self.counters.messages_expired += messages
        self._state.story.acked_through(StoryEvent.EXPIRED, None, entries, self._clock.now_ms())
        self.moves.done()
        if self.is_durable:
            self.mark_dirty()

    def act_passed(self, position: Position, left: int) -> None:
        """Record that an act acked an entry, except for the messages in the bitset `left`."""
        self._machine.act_passed(position, left)

    def record_for_undo(self, act_id: int, until_ms: int, recorded: AckOverlay) -> None:
        """Start to record acks of messages that an act skipped. An undo of the act keeps these acks."""
        self._machine.record_for_undo(act_id, until_ms, recorded)

    def undo_is_over(self) -> None:
        """Stop the recording that `record_for_undo` started."""
        self._machine.undo_is_over()

    # -- requests of clients -------------------------------------------------------------------------------------

    def redelivery_count(self, position: Position) -> int:
        """Return the redelivery count of an entry. On Exclusive and Failover, the count is always 0."""
        return self._state.dispatcher.redelivery_count(position)

    def letter_written(self, consumer: Consumer, position: Position, event: StoryEvent, topic: str) -> None:
        """Record that the broker copied an entry to the retry-letter or dead-letter topic `topic`."""
        if self._state.story.is_on:
            self._state.story.lettered(event, consumer, position, topic, self._clock.now_ms())

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether this ledger belongs to the topic and is not trimmed."""
        return self.log.ledgers.get(ledger_id) is not None

    def has_pending(self, consumer: Consumer, position: Position) -> bool:
        """Return whether an entry is pending at a consumer."""
        return self._machine.redelivery.has_pending(consumer, position)

    async def read_entry(self, position: Position) -> tuple[StoredEntry, int | None]:
        """Read an entry and the bitset of its unacked messages. If no message is acked, the bitset is None.

        Raises PersistenceFailed, NotAllowed.
        """
        entry = self.log.cached_entry(position)
        if entry is None:
            try:
                found = await self.reader.read_chosen([position])
            except (GapInLog, psycopg.Error) as error:
                raise PersistenceFailed(f"reading {position}: {error}") from error
            if not found:
                raise NotAllowed(f"message {position} is not stored any more")
            (entry,) = found
        if self.cursor.is_acked(position):
            raise NotAllowed(f"message {position} is already acknowledged")
        return entry, self.cursor.remaining_of(position)

    def acker(self, consumer: Consumer) -> Callable[[Sequence[AckRequest]], None]:
        """Return a function that acks for a consumer. After a cursor reset, the function does nothing."""
        resets = self._state.resets

        def ack(acks: Sequence[AckRequest]) -> None:
            if self._state.resets == resets and not self.is_deleted and self.log.is_open:
                self.ack(consumer, acks, cumulative=False, on_durable=None, validation_error=None)

        return ack

    async def last_message(self, consumer: Consumer) -> LastMessage:
        """Return the last message that a consumer can get, and the mark-delete position."""
        position, number = await self._last_messages.find(read_compacted=consumer.request.read_compacted)
        return LastMessage(position=position, number_in_batch=number, mark_delete=self.cursor.mark_delete)

    async def seek_position(self, consumer: Consumer, position: Position, remaining: int | None) -> None:
        """Carry out a client's seek. Cancelling does not stop the seek."""
        _require_open(consumer)
        await self._around.tasks.finish(self.moves.seek(consumer, position, remaining))

    async def seek_time(self, consumer: Consumer, time_ms: int) -> None:
        """Carry out a client's seek by time. Cancelling stops the search for the position, but not the move."""
        _require_open(consumer)
        position = await self.reader.position_at_time(time_ms)
        if consumer.request.read_compacted:
            # The log may have trimmed messages that compaction kept.
            position = min(position, await self._compacted.first_since(time_ms) or position)
        await self._around.tasks.finish(self.moves.seek(consumer, position, None))

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """Carry out a client's unsubscribe. Cancelling does not stop the deletion."""
        _require_open(consumer)
        await self._around.tasks.finish(self.moves.delete(consumer, force=force))


def _require_open(consumer: Consumer) -> None:
    if not consumer.is_open:
        raise ConsumerNotFound(f"consumer {consumer.name} is closed")
