"""A consumer of one topic or of one partition.

The broker's deliveries come through `intake`, and acks go through `acks`. Everything runs on the client's event loop. A
message that is taken from the queue without waiting needs neither a future nor a task.
"""

# Over 400 lines, because it is one state machine: attaching, seeking, closing and the broker's commands all change the
# same few fields, which are the link, its generation, the queue and the permits.

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from vela.aio.acks.side import AckSide
from vela.aio.attachment import Attachment
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.events import EventCaller
from vela.aio.consumers.link import ConsumerLink
from vela.aio.consumers.subscription_commands import subscribe_command
from vela.aio.consumers.warnings import PrefetchWatch
from vela.aio.deadline import Deadline
from vela.aio.deliveries.arrivals import Arrivals
from vela.aio.deliveries.intake import Intake
from vela.aio.deliveries.listener import start_listener
from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.aio.deliveries.schema_gate import SchemaGate
from vela.aio.deliveries.untaken import Untaken
from vela.aio.letters.letters import Letters
from vela.aio.own_loop import require_loop
from vela.core.consuming.counters import ConsumerCounters
from vela.core.consuming.read_position import ReadPosition
from vela.core.consuming.seek_target import seek_target
from vela.core.consuming.state import ConsumerState
from vela.core.consuming.statistics import ConsumerStatistics
from vela.core.flow.flow_control import FlowControl, Permits
from vela.core.flow.receive_window import ReceiveWindow
from vela.core.topic_name import full_name, partition_index
from vela.errors import (
    AlreadyClosed,
    ConnectError,
    InvalidConfiguration,
    NotConnected,
    ReadError,
    SubscriptionNotFound,
    TopicNotFound,
    VelaError,
)
from vela.message import Message, MessageId
from vela.options import ConsumerType
from vela.wire.binary import replies

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.connections.connection import Connection
    from vela.aio.consumers.options import ConsumerOptions
    from vela.core.acks.batch_acks import Position
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["TopicConsumer"]

logger = logging.getLogger(__name__)

_NAME_BYTES: Final = 3
_NAME_CHARACTERS: Final = 5
# Pause between two checks of has_message_available while a message is on its way. It doubles from first to last.
_FIRST_LOOK_S: Final = 0.1
_LAST_LOOK_S: Final = 1.0


class TopicConsumer(Consumer):
    """A consumer of one topic or partition. See `Consumer`."""

    def __init__(
        self,
        client: ClientPorts,
        topic: str,
        options: ConsumerOptions,
        *,
        inbox: ReceiveQueue | None = None,
        on_failed: Callable[[TopicConsumer, VelaError], None] | None = None,
    ) -> None:
        """`topic` is one topic or one partition. Raises InvalidConfiguration, InvalidTopicName.

        inbox: the common queue of several consumers, which gets the messages instead of this consumer's own.
        on_failed: called if the consumer cannot reconnect, for example because its topic was deleted.
        """
        self._client = client
        self._topic = full_name(topic)
        self._options = options
        self._name = options.consumer_name or secrets.token_hex(_NAME_BYTES)[:_NAME_CHARACTERS]
        self.is_gone = False
        """Whether the consumer has failed because its topic or subscription does not exist any more."""
        self.consumer_id = client.new_consumer_id()
        """The consumer's number, unique in the client."""
        self.counters = ConsumerCounters()
        """The counters behind the consumer's statistics."""
        self.read_position = ReadPosition(
            options.start_message_id, inclusive=options.start_message_id_inclusive, durable=options.durable
        )
        """Where the consumer reads."""
        self._loop = asyncio.get_running_loop()
        timers = client.make_timers()
        self.acks = AckSide(
            self,
            options.ack_options(self._topic, receipt_timeout_s=client.settings.operation_timeout_s),
            timers,
        )
        """The consumer's acks and redelivery requests."""
        self.letters = None if options.letters is None else Letters(self, options.letters, timers)
        """Sends messages to the dead-letter and retry-letter topics; None = not configured."""
        self.acks.letters = self.letters
        self._track = self.acks.taken if options.unacked_messages_timeout_ms else None
        schema = options.schema
        self._schema_gate: SchemaGate | None = None
        if schema is not None and schema.reads_versions:
            self._schema_gate = SchemaGate(client, self._topic, schema, self.on_message)
        self._intake = Intake(
            self,
            self._topic,
            options.delivery_options(max_uncompressed_bytes=client.max_uncompressed_bytes),
            timers,
        )
        self.queue = ReceiveQueue(self.taken, self.is_current, on_idle=self.listener_idle)
        """Messages that were delivered and not taken yet."""
        self._link = ConsumerLink(
            self.consumer_id, self._topic, timeout_s=client.settings.operation_timeout_s
        )
        self.flow = FlowControl(self._permits(), client.memory, self._link.flow)
        """The permits that the consumer grants to the broker."""
        self._inbox = inbox
        self._on_failed = on_failed
        self._untaken = Untaken(self, self.queue if inbox is None else inbox)
        self._timers = timers
        self._prefetch: PrefetchWatch | None = None  # only open Shared consumers have one
        self._events = EventCaller(options.consumer_event_listener, self._name)
        self._attachment = Attachment(client, self._topic, self._attach, on_failed=self._fail)
        self._state = ConsumerState.UNINITIALIZED
        self._closing: asyncio.Task[None] | None = None
        self.epoch = None if options.is_shared else 0
        """How often everything was requested again; None on Shared and Key_Shared, where the broker does not count."""
        self._arrivals = Arrivals()
        self._reached_end = False
        self._is_active: bool | None = None

    def _permits(self) -> Permits:
        options = self._options
        return ReceiveWindow(
            max(1, options.queue_size),
            growable=options.auto_scaled_receiver_queue_size_enabled,
            paused=options.start_paused,
        )

    async def open(self) -> None:
        """Subscribe. Call it once. Raises the broker's refusals and Timeout, after which the consumer has failed."""
        self._state = ConsumerState.CONNECTING
        try:
            function = self._options.message_listener
            if function is not None:
                self.queue.listener = start_listener(
                    function,
                    self,
                    self.queue,
                    name=self._name,
                    view=self._options.listener_view,
                    thread=self._client.listener_threads.next(),
                )
            await self._attachment.open()
            if self._options.consumer_type is ConsumerType.Shared and self._inbox is None:
                self._prefetch = PrefetchWatch(self, self._timers)
        except BaseException as error:
            self._state = ConsumerState.FAILED
            self.queue.end(NotConnected(f"the consumer could not subscribe: {error}"))
            connection = self._link.connection
            await self._stop(self._deadline())
            if connection is not None:  # cancelled just after the broker had accepted the consumer
                self._link.leave(connection)
            await self._attachment.close()
            raise
        self._client.keep(self)

    # --- names and numbers

    def topic(self) -> str:
        """See `Consumer.topic`."""
        return self._topic

    def subscription_name(self) -> str:
        """See `Consumer.subscription_name`."""
        return self._options.subscription_name

    def consumer_name(self) -> str:
        """See `Consumer.consumer_name`."""
        return self._name

    def is_connected(self) -> bool:
        """See `Consumer.is_connected`."""
        return self._link.connection is not None and self._state is ConsumerState.READY

    def has_reached_end_of_topic(self) -> bool:
        """See `Consumer.has_reached_end_of_topic`."""
        return self._reached_end

    @property
    def is_active(self) -> bool | None:
        """Return whether this is the active consumer on Failover; None if the broker has not said so yet."""
        return self._is_active

    @property
    def available_permits(self) -> int:
        """See `Consumer.available_permits`."""
        return self.flow.permits.available(len(self.queue))

    def statistics(self) -> ConsumerStatistics:
        """See `Consumer.statistics`."""
        counters = self.counters
        return ConsumerStatistics(
            messages_received=counters.messages_received,
            bytes_received=counters.bytes_received,
            messages_delivered=counters.messages_delivered,
            messages_waiting=len(self.queue),
            permits_available=self.available_permits,
            receives_failed=counters.receives_failed,
            entries_discarded={reason.name: count for reason, count in counters.discards.items()},
            entries_stale=counters.stale_entries,
        )

    def feeds(self, inbox: ReceiveQueue) -> bool:
        """Return whether the consumer's messages go to this queue, which several consumers share."""
        return self._inbox is inbox

    def queued_and_taken(self) -> tuple[int, int]:
        """Return how many messages wait for the application, and how many it has taken in all."""
        return len(self.queue), self.counters.messages_received

    # --- taking messages

    def _batch_policy(self) -> tuple[ConsumerBatchReceivePolicy, int]:
        return self._options.batch_receive_policy, self.flow.permits.size

    def _before_waiting(self) -> None:
        self.flow.ran_dry()

    def _interrupted(self) -> None:
        self.counters.receives_failed += 1

    async def __anext__(self) -> Message:
        """See `Consumer`. Written out here because it runs for every message."""
        queue = self.queue
        if queue.messages and queue.listener is None:
            message = queue.messages.popleft()
            self._count(message)
            return message
        return await super().__anext__()

    def taken(self, message: Message) -> None:
        """Count a message that the application got. A message of an earlier connection restores no permit."""
        if self.is_current(message):
            self._count(message)

    def untaken(self, message: Message) -> None:
        """Undo `taken` for a message that did not reach the application and goes back into the queue."""
        if self.is_current(message):
            self._uncount(message)

    def is_current(self, message: Message) -> bool:
        """Return whether the message arrived over the current connection."""
        return message.entry.generation == self._intake.generation

    def is_awaited(self, message: Message) -> bool:
        """Return whether the message is current, and the broker was not asked to deliver everything again since."""
        return self.is_current(message) and message.entry.epoch == self.epoch

    def _count(self, message: Message) -> None:
        counters = self.counters
        counters.messages_received += 1
        counters.bytes_received += len(message.body.payload)
        self.read_position.last_taken = message
        if self._track is not None:
            self._track(message)
        self.flow.taken(len(message.body.payload))

    def _uncount(self, message: Message) -> None:
        self.counters.messages_received -= 1
        self.counters.bytes_received -= len(message.body.payload)
        self.flow.untaken(len(message.body.payload))

    # --- acknowledging

    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        """See `Consumer.acknowledge`."""
        return self.acks.acknowledge(message, properties)

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        """See `Consumer.acknowledge_cumulative`."""
        return self.acks.acknowledge_cumulative(message, properties)

    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        """See `Consumer.negative_acknowledge`."""
        return self.acks.negative_acknowledge(message)

    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        """See `Consumer.reconsume_later`."""
        if self.letters is None:
            raise InvalidConfiguration("reconsume_later needs a consumer created with retry_enable=True")
        await self.letters.reconsume_later(message, delay, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        """See `Consumer.redeliver_unacknowledged_messages`."""
        self.acks.redeliver_all()

    # --- pausing

    def pause(self) -> None:
        """See `Consumer.pause`."""
        self.flow.pause()

    def resume(self) -> None:
        """See `Consumer.resume`."""
        self.flow.resume()

    # --- asking the broker

    async def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        """See `Consumer.seek`."""
        target = seek_target(messageid, self._topic)
        if self._untaken.is_held:
            raise InvalidConfiguration("a seek is under way: wait for it")
        self._check_usable()
        self._link.require()
        generation = self._intake.generation
        self.acks.flush()
        self._untaken.hold()
        try:
            await self._link.seek(target)
            self._sought(target, generation)
        finally:
            self._untaken.release()
        await self._until_attached(self._deadline())

    def _sought(self, target: MessageId | int, generation: int) -> None:
        """Drop the old messages after the broker has moved the subscription."""
        self._arrivals.reset()
        self.read_position.sought(target)
        dropped = len(self._drop_queue())
        if self._link.connection is not None and self._intake.generation == generation:
            # The broker did not close this consumer, for example because it is inactive on Failover.
            self.flow.give_back(dropped)
        self.acks.sought()

    async def _until_attached(self, deadline: Deadline) -> None:
        await self._link.until_attached(deadline)
        self._check_usable()

    async def unsubscribe(self, force: bool = False) -> None:
        """See `Consumer.unsubscribe`."""
        self._check_usable()
        await self._link.unsubscribe(force=force)
        await self.close()

    async def get_last_message_id(self) -> MessageId:
        """See `Consumer.get_last_message_id`."""
        last = (await self.last_message()).last
        return MessageId(
            max(last.partition, partition_index(self._topic)),
            last.ledger_id,
            last.entry_id,
            last.batch_index,
            topic=self._topic,
        )

    async def last_message(self) -> replies.LastMessageId:
        """Return the newest message and the mark-delete position. Raises the errors of `get_last_message_id`.

        If the connection is lost before the answer, it asks again.
        """
        deadline = self._deadline()
        while True:
            if self._link.connection is None and not self._state.is_over:
                await self._until_attached(deadline)
            self._check_usable()
            connection = self._link.require()
            try:
                return await self._link.last_message(timeout_s=deadline.left_s)
            except (ConnectError, ReadError):
                if connection is self._link.connection:
                    raise

    async def has_message_available(self) -> bool:
        """See `Consumer.has_message_available`."""
        give_up_s = self._loop.time() + self._client.settings.operation_timeout_s
        pause_s = _FIRST_LOOK_S
        while not self._untaken.has_any():
            last = await self.last_message()
            if self._untaken.has_any():  # arrived meanwhile
                break
            if not self._is_before(last):
                return False
            if not self._next_will_arrive() or self._loop.time() >= give_up_s:
                break
            # Either the entry is on its way, or it brings no message, because this consumer discards it or an entry
            # filter of the broker rejects it. The broker acks such entries, so ask again where mark-delete is.
            await self._arrivals.next(pause_s)
            pause_s = min(2 * pause_s, _LAST_LOOK_S)
        return True

    def _is_before(self, last: replies.LastMessageId) -> bool:
        """Return whether the topic has messages after those that have arrived."""
        return self.read_position.has_more(
            last=last.last, mark_delete=last.mark_delete, newest=self._arrivals.newest
        )

    def _next_will_arrive(self) -> bool:
        """Return whether the topic's next messages will arrive here and wait for the application."""
        return (
            self._options.queue_size > 0
            and self.flow.fetches_ahead
            and not self._options.is_shared
            and self._is_active is not False
            and self.queue.listener is None
        )

    # --- closing

    async def close(self) -> None:
        """See `Consumer.close`."""
        if self._state is ConsumerState.FAILED:
            self._state = ConsumerState.CLOSED
        if self._closing is None and self._state is not ConsumerState.CLOSED:
            require_loop(self._loop)
            self._state = ConsumerState.CLOSING
            error = AlreadyClosed(f"the consumer of {self._topic} is closed")
            self.queue.end(error)
            self._closing = self._loop.create_task(self._close(error))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self, error: VelaError) -> None:
        """Leave the subscription, then end waiting receives with the error."""
        deadline = self._deadline()
        await self._stop(deadline)
        await self._link.close(deadline)
        await self._attachment.close()
        self._state = ConsumerState.CLOSED
        self._client.forget(self)
        self.queue.end(error)

    def _deadline(self) -> Deadline:
        """Return a deadline for one call, or for all steps of closing."""
        return Deadline(self._client.settings.operation_timeout_s)

    async def _stop(self, deadline: Deadline) -> None:
        """Stop the listener, drop waiting messages, wake waiting calls, and send the collected acks."""
        self._drop_queue()
        if self.queue.listener is not None:
            self.queue.listener.close()
        self._events.close()
        self._intake.close()
        self.flow.close()
        if self._schema_gate is not None:
            self._schema_gate.close()
        self._link.wake()
        self._arrivals.wake()
        if self._prefetch is not None:
            self._prefetch.close()
        if self.letters is not None:
            await self.letters.close(deadline.left_s)
        await self.acks.close(deadline.left_s)

    def _fail(self, error: VelaError) -> None:
        """End a consumer that cannot reconnect, for example because its topic was deleted."""
        if self._state.is_over:
            return
        logger.warning("%s: the consumer %s has failed: %s", self._topic, self._name, error)
        self._state = ConsumerState.FAILED
        self.is_gone = isinstance(error, TopicNotFound | SubscriptionNotFound)
        self._client.forget(self)
        self.queue.end(NotConnected(f"the consumer of {self._topic} has failed: {error}"))
        self._closing = self._loop.create_task(self._stop(self._deadline()))
        if self._on_failed is not None:
            self._on_failed(self, error)

    # --- being attached to a connection

    async def _attach(self, connection: Connection) -> None:
        """Empty the queue, subscribe, forget the permits of the last connection, and send all permits."""
        if self._state.is_over:
            raise AlreadyClosed(f"the consumer of {self._topic} is closed")
        self._link.detach()
        # For a seek, the broker closes this consumer before it confirms the seek. If the consumer subscribed again
        # before the confirmation, the messages that arrive until then would be dropped as older than the seek.
        await self._untaken.until_released()
        start = self.read_position.resume(self._drop_queue())
        self._arrivals.reset()
        self._reached_end = False  # the broker says so again if it is still true
        if self._schema_gate is not None:
            self._schema_gate.close()  # the broker delivers again what the gate keeps back
        self._intake.attached()
        try:
            await self._link.subscribe(
                connection, self, lambda request_id: self._subscribe_command(request_id, start)
            )
            if self._state.is_over:
                raise AlreadyClosed(f"the consumer of {self._topic} was closed while it subscribed")
            self._state = ConsumerState.READY
            self.acks.attached()
            self.flow.attached()
        except BaseException as error:
            if self._state is ConsumerState.READY:
                self._state = ConsumerState.CONNECTING
            self._link.give_up(connection, error)
            raise
        self._link.confirm()

    def _subscribe_command(self, request_id: int, start: MessageId | None) -> bytes:
        return subscribe_command(
            self._options,
            topic=self._topic,
            consumer_id=self.consumer_id,
            consumer_name=self._name,
            request_id=request_id,
            start=start,
            rollback_s=self.read_position.rollback_s(int(time.time() * 1000)),
            epoch=self.epoch,
        )

    def _detach(self, connection: Connection, error: VelaError | None) -> None:
        if connection is self._link.connection:
            self._link.detach()
            self._arrivals.wake()
            if self._state is ConsumerState.READY:
                self._state = ConsumerState.CONNECTING
        if not self._state.is_over:
            self._attachment.lost(connection, error)

    # --- commands from the broker (`ConsumerSink`)

    def on_message(self, connection: Connection, reply: replies.Message) -> None:
        """See `ConsumerSink`. Ignores deliveries over an earlier connection, and while the consumer closes."""
        if connection is not self._link.connection or not self._state.can_receive:
            self.counters.stale_entries += 1
            return
        epoch = reply.consumer_epoch
        if epoch is not None and self.epoch is not None and epoch < self.epoch:
            self._intake.pass_over(reply)
            return
        if self._schema_gate is not None and self._schema_gate.keeps_back(connection, reply):
            return
        self._intake.receive(connection, reply)
        self._arrivals.note((reply.ledger_id, reply.entry_id))

    def on_closed_by_broker(self, connection: Connection) -> None:
        """See `ConsumerSink`."""
        self._detach(connection, None)

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        """See `ConsumerSink`."""
        self._detach(connection, error)

    def on_active_change(self, connection: Connection, active: bool) -> None:
        """See `ConsumerSink`."""
        if self._is_active != active:
            self._is_active = active
            self._events.tell(self, partition_index(self._topic), active)

    def on_end_of_topic(self, connection: Connection) -> None:
        """See `ConsumerSink`."""
        self._reached_end = True

    # --- for the intake, the listener, the acks and the letters

    def listener_idle(self) -> None:
        """Called when the listener has returned and no message waits."""

    def connection(self) -> Connection | None:
        """See `AckOwner`."""
        return self._link.connection

    def give_back(self, permits: int) -> None:
        """See `IntakeOwner`."""
        self.flow.not_shown(permits)

    def show(self, messages: list[Message], is_batch: bool) -> None:
        """See `IntakeOwner`."""
        permits = len(messages)
        if self.letters is not None:
            messages = self.letters.arrived(messages)
        self.flow.arrived(_payload_bytes(messages), permits)
        if messages:
            self._untaken.put(messages)
            if self._inbox is None:
                self.flow.filled(len(self.queue))

    def passed_over(self, messages: Sequence[Message]) -> None:
        """See `LettersOwner`."""
        if self.is_current(messages[0]):
            self.flow.give_back(len(messages))

    def waiting(self, positions: Collection[Position]) -> list[Message]:
        """See `LettersOwner`."""
        return self._untaken.find(set(positions))

    def redelivered_locally(self, positions: Sequence[Position]) -> None:
        """See `AckOwner`."""
        removed = self._untaken.remove(set(positions))
        self.flow.removed(_payload_bytes(removed))
        if removed:
            self._arrivals.reset()
        self.flow.give_back(len(removed))

    def redeliver_everything(self) -> None:
        """See `AckOwner`."""
        dropped = len(self._drop_queue())
        self._arrivals.reset()
        if self.epoch is not None:
            self.epoch += 1
        self._link.redeliver_all(self.epoch)
        self.flow.give_back(dropped)

    def _drop_queue(self) -> list[Message]:
        """Remove and return all messages that the application has not taken."""
        dropped = self._untaken.clear()
        self.flow.emptied(_payload_bytes(dropped))
        return dropped


def _payload_bytes(messages: Sequence[Message]) -> int:
    return sum(len(message.body.payload) for message in messages)
