"""The messages of one consumer, from their delivery until they are acked or delivered again.

A delivery goes through `Intake` and, with dead letters or retry letters, through `Letters`; then its messages wait for
the application in a queue. `AckSide` keeps the acks and requests redelivery. This module has what these parts share:
the permits, the read position, the counters and the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from vela.aio.acks.side import AckSide
from vela.aio.deliveries.arrivals import Arrivals
from vela.aio.deliveries.intake import Intake
from vela.aio.deliveries.untaken import Untaken
from vela.aio.letters.letters import Letters
from vela.core.consuming.counters import ConsumerCounters
from vela.message import Message, MessageId

if TYPE_CHECKING:
    from vela.aio.connections.connection import Connection
    from vela.aio.deadline import Deadline
    from vela.aio.deliveries.receive_queue import ReceiveQueue
    from vela.aio.deliveries.schema_gate import SchemaGate
    from vela.aio.letters.letter_box import LetterBox
    from vela.aio.timers import Timers
    from vela.core.acks.batch_acks import Position
    from vela.core.acks.options import AckOptions
    from vela.core.consuming.delivery_options import DeliveryOptions
    from vela.core.consuming.read_position import ReadPosition
    from vela.core.flow.flow_control import FlowControl
    from vela.wire.binary import replies

__all__ = ["Deliveries", "DeliveryLink", "Receiver"]


class Receiver(Protocol):
    """The consumer of these deliveries."""

    def topic(self) -> str:
        """Return the topic's full name."""

    def consumer_name(self) -> str:
        """Return the consumer's name."""


class DeliveryLink(Protocol):
    """The part of the consumer's link that deliveries need."""

    @property
    def consumer_id(self) -> int:
        """Return the consumer's number on its connections."""

    @property
    def connection(self) -> Connection | None:
        """Return the connection on which the consumer is subscribed; None while there is none."""

    def redeliver_all(self, epoch: int | None) -> None:
        """Have all unacknowledged messages delivered again."""


class Deliveries:
    """The deliveries of one consumer of one topic, over all its connections."""

    def __init__(
        self,
        receiver: Receiver,
        link: DeliveryLink,
        queue: ReceiveQueue,
        flow: FlowControl,
        read_position: ReadPosition,
        *,
        options: DeliveryOptions,
        acks: AckOptions,
        letters: LetterBox | None,
        gate: SchemaGate | None,
        timers: Timers,
    ) -> None:
        """`queue` may have messages of other consumers, too. Raises InvalidConfiguration."""
        self.flow = flow
        self.read_position = read_position
        self.counters = ConsumerCounters()
        self.acks = AckSide(self, acks, timers)
        self.letters = None if letters is None else Letters(self, letters, timers, receiver.consumer_name())
        self.acks.letters = self.letters
        self.arrivals = Arrivals()
        """The newest entry that has arrived."""
        self.epoch = None if acks.is_shared else 0
        """How often everything was requested again; None on Shared and Key_Shared, where the broker does not count."""
        self.refuse_batch: Callable[[Message], None] | None = None
        """Called with the first message of a batch, instead of showing it; None = batches are allowed."""
        self._link = link
        self._track = self.acks.taken if acks.ack_timeout_ms else None
        self._gate = gate
        self._intake = Intake(self, receiver, receiver.topic(), options, timers)
        self._untaken = Untaken(receiver, queue)
        self._delivered = queue.delivered

    # --- arriving

    @property
    def generation(self) -> int:
        """Return the number of the current connection."""
        return self._intake.generation

    def is_current(self, message: Message) -> bool:
        """Return whether the message arrived over the current connection."""
        return message.entry.generation == self._intake.generation

    def is_awaited(self, message: Message) -> bool:
        """Return whether the message is current and, on Exclusive and Failover, was not requested again since."""
        return self.is_current(message) and message.entry.epoch == self.epoch

    def receive(self, connection: Connection, reply: replies.Message) -> None:
        """Process a delivery over the current connection."""
        epoch = reply.consumer_epoch
        if epoch is not None and self.epoch is not None and epoch < self.epoch:
            self._intake.pass_over(reply)
        elif self._gate is not None and self._gate.keeps_back(connection, reply):
            return
        else:
            self._intake.receive(connection, reply)
            self.arrivals.note((reply.ledger_id, reply.entry_id))
        self._delivered()

    def show(self, messages: list[Message], is_batch: bool) -> None:
        """Pass messages to the application, in order, except those that become dead letters."""
        if is_batch and self.refuse_batch is not None:
            self.refuse_batch(messages[0])
            return
        permits = len(messages)
        self.flow.spent(permits)  # first, because `letters` may restore them
        if self.letters is not None:
            messages = self.letters.arrived(messages)
        self.flow.keep(messages, permits)
        if messages:
            self._untaken.put(messages)

    def passed_over(self, messages: Sequence[Message]) -> None:
        """Restore the permits of messages that arrived but will not be shown."""
        if self.is_current(messages[0]):
            self.flow.give_back(len(messages))

    # --- waiting for the application

    def has_any(self) -> bool:
        """Return whether the application can take a message."""
        return self._untaken.has_any()

    def waiting(self, positions: Collection[Position]) -> list[Message]:
        """Return messages of these entries that have arrived but that the application has not taken."""
        return self._untaken.find(set(positions))

    def taken(self, message: Message) -> None:
        """Count a message that the application got, and restore its permit. Ignores messages of earlier connections."""
        if self.is_current(message):
            self.count(message)

    def count(self, message: Message) -> None:
        """Count a message of the current connection that the application got."""
        counters = self.counters
        counters.messages_received += 1
        counters.bytes_received += len(message.body.payload)
        self.read_position.last_taken = message
        if self._track is not None:
            self._track(message)
        self.flow.taken(message)

    def untaken(self, message: Message) -> None:
        """Undo the counts and the permit of `taken`, for a message that goes back into the queue."""
        if self.is_current(message):
            self.counters.messages_received -= 1
            self.counters.bytes_received -= len(message.body.payload)
            self.flow.untaken(message)

    # --- being delivered again

    @property
    def consumer_id(self) -> int:
        """Return the consumer's number on its connections."""
        return self._link.consumer_id

    def connection(self) -> Connection | None:
        """Return the connection, or None while it is lost."""
        return self._link.connection

    def redelivered_locally(self, positions: Sequence[Position]) -> None:
        """Drop waiting messages of entries that will be delivered again, and restore their permits."""
        removed = self._untaken.remove(set(positions))
        self.flow.removed(removed)
        if removed:
            self.arrivals.reset()
        self.flow.give_back(len(removed))

    def redeliver_everything(self) -> None:
        """Request all unacked messages again: drop the queue, raise the epoch if there is one, and send REDELIVER."""
        dropped = len(self._drop())
        self.arrivals.reset()
        if self.epoch is not None:
            self.epoch += 1
        self._link.redeliver_all(self.epoch)
        self.flow.give_back(dropped)

    def _drop(self) -> list[Message]:
        """Remove and return all messages that the application has not taken."""
        dropped = self._untaken.clear()
        self.flow.emptied(dropped)
        return dropped

    # --- seeking

    @property
    def is_held(self) -> bool:
        """Return whether messages are held back, because a seek is under way."""
        return self._untaken.is_held

    def hold(self) -> None:
        """Hold back all messages until `release`, because a seek begins."""
        self._untaken.hold()

    def sought(self, target: MessageId | int, generation: int) -> None:
        """Drop the messages before a seek, after the broker has moved the subscription.

        `generation` is the number of the connection over which the seek was sent.
        """
        self.read_position.sought(target)
        self.arrivals.reset()
        dropped = len(self._drop())
        if self._link.connection is not None and self.generation == generation:
            # The broker did not close this consumer, for example because it is inactive on Failover. So the consumer
            # does not subscribe again, and must restore the permits of the dropped messages.
            self.flow.give_back(dropped)
        self.acks.sought()

    def release(self) -> None:
        """Show the messages that are still held back, because a seek has ended."""
        self._untaken.release()

    async def until_released(self) -> None:
        """Wait until no seek is under way."""
        await self._untaken.until_released()

    # --- connections

    def detached(self) -> None:
        """Wake calls that wait for the next entry, because the connection is lost."""
        self.arrivals.wake()

    def begin(self) -> MessageId | None:
        """Begin with a new connection, and return where a non-durable subscription begins."""
        start = self.read_position.resume(self._drop())
        self.arrivals.reset()
        if self._gate is not None:
            self._gate.close()  # the broker delivers again the messages that the gate keeps back
        self._intake.attached()
        return start

    def attached(self) -> None:
        """Send the collected acks, then grant permits anew, because the consumer is subscribed."""
        self.acks.attached()
        self.flow.attached()

    async def close(self, deadline: Deadline) -> None:
        """Drop waiting messages, wake waiting calls, finish dead and retry letters, and send the collected acks.

        Safe to repeat.
        """
        self._drop()
        self._intake.close()
        self.flow.close()
        if self._gate is not None:
            self._gate.close()
        self.arrivals.wake()
        if self.letters is not None:
            await self.letters.close(deadline.left_s)
        await self.acks.close(deadline.left_s)
