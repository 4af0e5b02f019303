"""A consumer of one topic or of one partition.

`Deliveries` has its messages, and `ConsumerLink` its commands to the broker. Everything runs on the client's event
loop. `receive` and `async for` take a waiting message without a future or a task.
"""

# Over 400 lines, because it has all calls of a consumer and its whole life: attaching, losing the connection, failing
# and closing.

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from vela.aio.attachment import Attachment
from vela.aio.consumers.active_role import ActiveRole
from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.link import ConsumerLink
from vela.aio.consumers.subscription_commands import subscribe_command
from vela.aio.consumers.warnings import PrefetchWatch
from vela.aio.deadline import Deadline
from vela.aio.deliveries.deliveries import Deliveries
from vela.aio.deliveries.listener import start_listener
from vela.aio.deliveries.receive_queue import ReceiveQueue
from vela.aio.deliveries.schema_gate import SchemaGate
from vela.aio.own_loop import require_loop
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
    from vela.options import ConsumerBatchReceivePolicy

__all__ = ["TopicConsumer"]

logger = logging.getLogger(__name__)

# Pause between two checks of has_message_available while a message is on its way. It doubles up to _LAST_LOOK_S.
_FIRST_LOOK_S: Final = 0.1
_LAST_LOOK_S: Final = 1.0


class TopicConsumer(Consumer):
    """A consumer of one topic or partition."""

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
        self._name = options.name()
        self.is_gone = False
        """Whether the consumer has failed because its topic or subscription does not exist any more."""
        self.consumer_id = client.new_consumer_id()
        """The consumer's number, unique in the client."""
        self._loop = asyncio.get_running_loop()
        self._timers = client.make_timers()
        self.link = ConsumerLink(self.consumer_id, self._topic, timeout_s=client.settings.operation_timeout_s)
        """The consumer's link to its broker."""
        self._on_failed = on_failed
        self.flow = FlowControl(self._permits(), client.memory, self.link.flow)
        """The permits that the consumer grants to the broker."""
        self.queue = ReceiveQueue(self.taken, self.is_current, self.flow.ran_dry)
        """Messages that were delivered and not taken yet."""
        self._inbox = self.queue if inbox is None else inbox
        self._deliveries = self._new_deliveries()
        self.counters = self._deliveries.counters
        """The counters behind the consumer's statistics."""
        self.acks = self._deliveries.acks
        """The consumer's acks and redelivery requests."""
        self.letters = self._deliveries.letters
        """Sends messages to the dead-letter and retry-letter topics; None = not configured."""
        self._prefetch: PrefetchWatch | None = None  # only on Shared, with a separate queue
        self._role = ActiveRole(options.consumer_event_listener, self._name)
        self._attachment = Attachment(client, self._topic, self._attach, on_failed=self._fail)
        self._state = ConsumerState.UNINITIALIZED
        self._closing: asyncio.Task[None] | None = None
        self._reached_end = False

    def _new_deliveries(self) -> Deliveries:
        client, options, schema = self._client, self._options, self._options.schema
        gate = None
        if schema is not None and schema.reads_versions:
            gate = SchemaGate(client, self._topic, schema, self.on_message)
        return Deliveries(
            self,
            self.link,
            self._inbox,
            self.flow,
            ReadPosition(
                options.start_message_id,
                inclusive=options.start_message_id_inclusive,
                durable=options.durable,
            ),
            options=options.delivery_options(max_uncompressed_bytes=client.max_uncompressed_bytes),
            acks=options.ack_options(self._topic, receipt_timeout_s=client.settings.operation_timeout_s),
            letters=options.letters,
            gate=gate,
            timers=self._timers,
        )

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
                    view=self._options.listener_view,
                    thread=self._client.listener_threads.next(),
                )
            await self._attachment.open()
            if self._options.consumer_type is ConsumerType.Shared and self._inbox is self.queue:
                self._prefetch = PrefetchWatch(self, self._timers)
        except BaseException as error:
            self._state = ConsumerState.FAILED
            self.queue.end(NotConnected(f"the consumer could not subscribe: {error}"))
            connection = self.link.connection
            await self._stop(self._deadline())
            if connection is not None:  # cancelled just after the broker had accepted the consumer
                self.link.leave(connection)
            await self._attachment.close()
            raise
        self._client.keep(self)

    # --- names and numbers

    def topic(self) -> str:
        return self._topic

    def subscription_name(self) -> str:
        return self._options.subscription_name

    def consumer_name(self) -> str:
        return self._name

    def is_connected(self) -> bool:
        return self.link.connection is not None and self._state is ConsumerState.READY

    def has_reached_end_of_topic(self) -> bool:
        return self._reached_end

    @property
    def is_active(self) -> bool | None:
        """Return whether the broker last called this the active consumer of Failover; None = it has not said yet."""
        return self._role.is_active

    @property
    def available_permits(self) -> int:
        return self.flow.permits.available(len(self.queue))

    def statistics(self) -> ConsumerStatistics:
        return self.counters.statistics(waiting=len(self.queue), permits=self.available_permits)

    def feeds(self, inbox: ReceiveQueue) -> bool:
        """Return whether the consumer's messages go to this queue."""
        return self._inbox is inbox

    def queued_and_taken(self) -> tuple[int, int]:
        """Return how many messages wait for the application, and how many it has taken in all."""
        return len(self.queue), self.counters.messages_received

    # --- taking messages

    def _batch_policy(self) -> ConsumerBatchReceivePolicy:
        return self._options.batch_receive_policy

    def _is_full(self) -> bool:
        return self.flow.is_spent

    def _interrupted(self) -> None:
        self.counters.receives_failed += 1

    async def __anext__(self) -> Message:
        """Do the same as `Consumer.__anext__`, faster, because it runs for every message."""
        queue = self.queue
        if queue.messages and queue.listener is None:
            message = queue.messages.popleft()
            self._deliveries.count(message)
            return message
        return await super().__anext__()

    def taken(self, message: Message) -> None:
        """Count a message that the application got, and restore its permit."""
        self._deliveries.taken(message)

    def untaken(self, message: Message) -> None:
        """Undo `taken` for a message that goes back into the queue."""
        self._deliveries.untaken(message)

    def is_current(self, message: Message) -> bool:
        """Return whether the message arrived over the current connection."""
        return self._deliveries.is_current(message)

    def is_awaited(self, message: Message) -> bool:
        """Return whether the message is current and, on Exclusive and Failover, was not requested again since."""
        return self._deliveries.is_awaited(message)

    # --- acknowledging

    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        return self.acks.acknowledge(message, properties)

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        return self.acks.acknowledge_cumulative(message, properties)

    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        return self.acks.negative_acknowledge(message)

    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None = None
    ) -> None:
        if self.letters is None:
            raise InvalidConfiguration("reconsume_later needs a consumer created with retry_enable=True")
        await self.letters.reconsume_later(message, delay, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        self.acks.redeliver_all()

    # --- pausing

    def pause(self) -> None:
        self.flow.pause()

    def resume(self) -> None:
        self.flow.resume()

    # --- asking the broker

    async def seek(self, messageid: MessageId | int | Callable[[str], MessageId | int]) -> None:
        target = seek_target(messageid, self._topic)
        deliveries = self._deliveries
        if deliveries.is_held:
            raise InvalidConfiguration("a seek is under way: wait for it")
        self._check_usable()
        self.link.require()
        generation = deliveries.generation
        self.acks.flush()
        deliveries.hold()
        try:
            await self.link.seek(target)
            deliveries.sought(target, generation)
        finally:
            deliveries.release()
        await self._until_attached(self._deadline())

    async def _until_attached(self, deadline: Deadline) -> None:
        self._check_usable()  # a consumer that closes or has failed is not subscribed again
        await self.link.until_attached(deadline)
        self._check_usable()

    async def unsubscribe(self, force: bool = False) -> None:
        self._check_usable()
        await self.link.unsubscribe(force=force)
        await self.close()

    async def get_last_message_id(self) -> MessageId:
        last = (await self.last_message()).last
        return MessageId(
            max(last.partition, partition_index(self._topic)),
            last.ledger_id,
            last.entry_id,
            last.batch_index,
            topic=self._topic,
        )

    async def last_message(self) -> replies.LastMessageId:
        """Return the id of the newest message, and the mark-delete position.

        If the connection is lost before the answer, asks again. Raises the errors of `get_last_message_id`.
        """
        deadline = self._deadline()
        while True:
            if self.link.connection is None and not self._state.is_over:
                await self._until_attached(deadline)
            self._check_usable()
            connection = self.link.require()
            try:
                return await self.link.last_message(timeout_s=deadline.left_s)
            except (ConnectError, ReadError):
                if connection is self.link.connection:
                    raise

    async def has_message_available(self) -> bool:
        give_up_s = self._loop.time() + self._client.settings.operation_timeout_s
        pause_s = _FIRST_LOOK_S
        while not self._deliveries.has_any():
            last = await self.last_message()
            if self._deliveries.has_any():  # arrived meanwhile
                break
            if not self._is_before(last):
                return False
            if not self._next_will_arrive() or self._loop.time() >= give_up_s:
                break
            # The entry may be on its way. Or it brings no message, because this consumer discards it or an entry filter
            # of the broker rejects it. Such an entry is acked, so ask again where mark-delete is.
            await self._deliveries.arrivals.next(pause_s)
            pause_s = min(2 * pause_s, _LAST_LOOK_S)
        return True

    def _is_before(self, last: replies.LastMessageId) -> bool:
        """Return whether the topic has messages after those that have arrived."""
        deliveries = self._deliveries
        return deliveries.read_position.has_more(
            last=last.last, mark_delete=last.mark_delete, newest=deliveries.arrivals.newest
        )

    def _next_will_arrive(self) -> bool:
        """Return whether the topic's next messages will arrive here and wait for the application.

        Even at the memory limit, a consumer without messages gets the next entry. Without a queue, only a receive asks
        for one.
        """
        return (
            self._options.queue_size > 0
            and not self.flow.permits.is_paused
            and not self._options.is_shared
            and self._role.is_active is not False
            and self._inbox.listener is None
        )

    # --- closing

    async def close(self) -> None:
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
        await self.link.close(deadline)
        await self._attachment.close()
        self._state = ConsumerState.CLOSED
        self._client.forget(self)
        self.queue.end(error)

    def _deadline(self) -> Deadline:
        """Return a deadline for one call, or for all steps of closing."""
        return Deadline(self._client.settings.operation_timeout_s)

    async def _stop(self, deadline: Deadline) -> None:
        """Stop the listener, drop waiting messages, wake waiting calls, and send the collected acks."""
        if self.queue.listener is not None:
            self.queue.listener.close()
        self._role.close()
        self.link.wake()
        if self._prefetch is not None:
            self._prefetch.close()
        await self._deliveries.close(deadline)

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
        """Empty the queue, subscribe, send the collected acks, and grant permits anew."""
        if self._state.is_over:
            raise AlreadyClosed(f"the consumer of {self._topic} is closed")
        self.link.detach()
        # For a seek, the broker closes this consumer before it confirms the seek. If the consumer subscribed again
        # before the confirmation, messages that arrive in between would be dropped as older than the seek.
        await self._deliveries.until_released()
        start = self._deliveries.begin()
        self._reached_end = False  # if the end is still reached, the broker says so again
        try:
            await self.link.subscribe(
                connection, self, lambda request_id: self._subscribe_command(request_id, start)
            )
            if self._state.is_over:
                raise AlreadyClosed(f"the consumer of {self._topic} was closed while it subscribed")
            self._state = ConsumerState.READY
            self._deliveries.attached()
        except BaseException as error:
            if self._state is ConsumerState.READY:
                self._state = ConsumerState.CONNECTING
            self.link.give_up(connection, error)
            raise
        self.link.confirm()

    def _subscribe_command(self, request_id: int, start: MessageId | None) -> bytes:
        return subscribe_command(
            self._options,
            topic=self._topic,
            consumer_id=self.consumer_id,
            consumer_name=self._name,
            request_id=request_id,
            start=start,
            rollback_s=self._deliveries.read_position.rollback_s(int(time.time() * 1000)),
            epoch=self._deliveries.epoch,
        )

    def _detach(self, connection: Connection, error: VelaError | None) -> None:
        if connection is self.link.connection:
            self.link.detach()
            self._deliveries.detached()
            if self._state is ConsumerState.READY:
                self._state = ConsumerState.CONNECTING
        if not self._state.is_over:
            self._attachment.lost(connection, error)

    # --- commands from the broker (`ConsumerSink`)

    def on_message(self, connection: Connection, reply: replies.Message) -> None:
        """Process a delivered entry. Ignore one over an earlier connection, or once the consumer ends."""
        if connection is not self.link.connection or not self._state.can_receive:
            self.counters.stale_entries += 1
            return
        self._deliveries.receive(connection, reply)

    def on_closed_by_broker(self, connection: Connection) -> None:
        self._detach(connection, None)

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        self._detach(connection, error)

    def on_active_change(self, connection: Connection, active: bool) -> None:
        self._role.change(self, partition_index(self._topic), active)

    def on_end_of_topic(self, connection: Connection) -> None:
        self._reached_end = True
