"""The consumers of one binary connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker.core.errors import (
    BrokerError,
    ConsumerNotFound,
    MetadataInvalid,
    NotAllowed,
    ServiceNotReady,
    TooManyConsumers,
)
from broker.core.position import Position
from broker.core.subscription.departure import DepartureCause
from broker.doors.binary.requests import subscribe_request
from broker.doors.binary.wire import events
from broker.doors.server_errors import server_error
from broker.doors.times import format_time
from broker.subscription.requests import AckRequest, Delivery
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.errors import LocalProtocolError
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from broker.doors.binary.peer import Peer
    from broker.doors.binary.request_runner import RequestRunner
    from broker.doors.ports import ConsumerPort, SubscribePort

__all__ = ["ConsumerSlot", "ConsumerTable"]

logger = logging.getLogger(__name__)


class ConsumerTable:
    """Handles the consumer commands of one connection."""

    def __init__(self, broker: SubscribePort, peer: Peer, requests: RequestRunner) -> None:
        self._broker = broker
        self._peer = peer
        self._requests = requests
        self._slots: dict[int, ConsumerSlot] = {}

    def writable_again(self) -> None:
        """Resume deliveries, because the peer can receive bytes again."""
        for slot in list(self._slots.values()):
            if slot.consumer is not None:
                slot.consumer.writable_again()

    def lost(self) -> None:
        """Detach every consumer."""
        slots = list(self._slots.values())
        self._slots.clear()
        # Stop all consumers first, so that no message goes to another consumer of this connection.
        for slot in slots:
            slot.is_closed = True
            if slot.consumer is not None:
                slot.consumer.stop_delivery()
        for slot in slots:
            if slot.consumer is not None:
                slot.consumer.detach()

    def on_flow(self, event: events.Flow) -> None:
        """Add permits to an open consumer."""
        slot = self._slots.get(event.consumer_id)
        if slot is not None and slot.consumer is not None:
            slot.consumer.flow(event.permits)

    def on_ack(self, event: events.Ack) -> None:
        """Apply acks of an open consumer."""
        slot = self._slots.get(event.consumer_id)
        if slot is not None:
            slot.ack(event)

    def on_redeliver(self, event: events.Redeliver) -> None:
        """Redeliver messages of an open consumer."""
        slot = self._slots.get(event.consumer_id)
        if slot is not None:
            slot.redeliver(event)

    def on_subscribe(self, event: events.Subscribe) -> None:
        """Open a consumer."""
        known = self._slots.get(event.consumer_id)
        if known is None:
            most = self._broker.settings.max_consumers_per_connection
            if most and len(self._slots) >= most:
                self._refuse_another(event, most)
                return
            slot = self._slots[event.consumer_id] = ConsumerSlot(
                self._peer, event.consumer_id, on_closed=self._closed_by_broker
            )
            self._requests.run(
                event,
                self._subscribe(slot, event),
                lambda error: self._consumer_refused(slot, event, error),
            )
        elif known.consumer is None:
            busy = ServiceNotReady(f"consumer {event.consumer_id} is still being opened; try again")
            self._requests.refusal(event.request_id)(busy)
        else:
            self._peer.engine.send_success(event.request_id)

    def _refuse_another(self, event: events.Subscribe, most: int) -> None:
        setting = "VELA_MAX_CONSUMERS_PER_CONNECTION"
        self._broker.connections.reached(setting, "refused another consumer", str(self._peer))
        error = TooManyConsumers(
            f"the connection has {most} consumers, the most that {setting} allows: close some, or use more connections"
        )
        self._requests.count_refusal(event, str(error))
        self._requests.refusal(event.request_id)(error)

    async def _subscribe(self, slot: ConsumerSlot, event: events.Subscribe) -> None:
        request = subscribe_request(event)
        slot.partition = -1 if request.topic.partition is None else request.topic.partition
        consumer = await self._broker.subscribe(request, self._peer.identity, slot)
        if slot.is_closed:
            consumer.detach(DepartureCause.CLOSED)
            return
        slot.consumer = consumer
        self._peer.engine.send_success(event.request_id)

    def _consumer_refused(self, slot: ConsumerSlot, event: events.Subscribe, error: BrokerError) -> None:
        self._forget_consumer(slot)
        if not slot.is_closed:
            self._requests.refusal(event.request_id)(error)

    def _closed_by_broker(self, slot: ConsumerSlot, reason: str) -> None:
        if self._slots.get(slot.consumer_id) is not slot:
            return
        self._forget_consumer(slot)
        logger.info(
            "%s: consumer %s is closed: %s",
            self._peer.address,
            slot.consumer_id,
            reason,
            extra={"client": self._peer.address},
        )
        try:
            self._peer.engine.send_close_consumer(slot.consumer_id)
        except LocalProtocolError as error:
            self._peer.close(str(error))
        self._peer.written()

    def _forget_consumer(self, slot: ConsumerSlot) -> None:
        if self._slots.get(slot.consumer_id) is slot:
            del self._slots[slot.consumer_id]

    def on_close_consumer(self, event: events.CloseConsumer) -> None:
        """Close a consumer. Answer SUCCESS even for an unknown consumer."""
        slot = self._slots.pop(event.consumer_id, None)
        if slot is not None:
            slot.is_closed = True
            if slot.consumer is not None:
                slot.consumer.detach(DepartureCause.CLOSED)
        self._peer.engine.send_success(event.request_id)

    def on_unsubscribe(self, event: events.Unsubscribe) -> None:
        """Delete the consumer's subscription."""
        self._with_consumer(event, self._unsubscribe)

    async def _unsubscribe(self, slot: ConsumerSlot, event: events.Unsubscribe) -> None:
        if slot.consumer is not None:
            await slot.consumer.unsubscribe(force=event.force)
        slot.is_closed = True
        self._forget_consumer(slot)
        self._peer.engine.send_success(event.request_id)

    def on_seek(self, event: events.Seek) -> None:
        """Move the subscription's cursor."""
        self._with_consumer(event, self._seek)

    async def _seek(self, slot: ConsumerSlot, event: events.Seek) -> None:
        if slot.consumer is None:
            raise ConsumerNotFound(f"consumer {slot.consumer_id} is closed; subscribe again")
        if (event.message_id is None) == (event.publish_time_ms is None):
            raise MetadataInvalid("SEEK takes either a message id or a publish time")
        if event.message_id is not None:
            target = Position(event.message_id.ledger_id, event.message_id.entry_id)
            await slot.consumer.seek_position(target, event.ack_set)
        elif event.publish_time_ms is not None:
            await slot.consumer.seek_time(event.publish_time_ms)
        self._peer.engine.send_success(event.request_id)

    def on_get_last_message_id(self, event: events.GetLastMessageId) -> None:
        """Answer with the mark-delete position and the id of the last message that the consumer can receive."""
        self._with_consumer(event, self._get_last_message_id)

    async def _get_last_message_id(self, slot: ConsumerSlot, event: events.GetLastMessageId) -> None:
        if slot.consumer is None:
            raise ConsumerNotFound(f"consumer {slot.consumer_id} is closed; subscribe again")
        last = await slot.consumer.last_message()
        self._peer.engine.send_last_message_id(
            event.request_id,
            last=MessageId(
                last.position.ledger_id,
                last.position.entry_id,
                slot.partition,
                last.number_in_batch - 1,
                last.number_in_batch,
            ),
            mark_delete=MessageId(last.mark_delete.ledger_id, last.mark_delete.entry_id, slot.partition),
        )

    def _with_consumer(
        self,
        event: events.Unsubscribe | events.Seek | events.GetLastMessageId,
        work: Callable[[ConsumerSlot, Any], Awaitable[None]],
    ) -> None:
        slot = self._slots.get(event.consumer_id)
        if slot is None or slot.consumer is None:
            missing = MetadataInvalid(f"consumer {event.consumer_id} is not open here; subscribe first")
            self._requests.count_refusal(event, str(missing))
            self._requests.refusal(event.request_id)(missing)
        else:
            self._requests.run(
                event, self._in_turn(slot, event, work), self._requests.refusal(event.request_id)
            )

    async def _in_turn(
        self, slot: ConsumerSlot, event: events.Event, work: Callable[[ConsumerSlot, Any], Awaitable[None]]
    ) -> None:
        async with slot.turn:
            await work(slot, event)

    def on_consumer_stats(self, event: events.ConsumerStats) -> None:
        """Answer with the consumer's statistics and the subscription's backlog."""
        slot = self._slots.get(event.consumer_id)
        if slot is None or slot.consumer is None:
            self._peer.engine.send_consumer_stats_failed(
                event.request_id,
                ServerError.CONSUMER_NOT_FOUND,
                f"consumer {event.consumer_id} is not open here; subscribe first",
            )
            return
        figures = slot.consumer.statistics(self._broker.rates)
        self._peer.engine.send_consumer_stats(
            event.request_id,
            consumer_name=slot.consumer.name,
            type=SubType[slot.consumer.subscription_type.name],
            address=f"/{self._peer.identity.address}",
            connected_since=format_time(figures.connected_ms),
            permits=figures.permits,
            unacked_messages=figures.unacked_messages,
            blocked=figures.is_blocked,
            backlog_entries=figures.backlog_entries,
            message_rate_out=figures.messages_out_per_s,
            bytes_rate_out=figures.bytes_out_per_s,
            redeliver_rate=figures.messages_redelivered_per_s,
            ack_rate=figures.messages_acked_per_s,
        )


class ConsumerSlot:
    """A consumer of one client. Implements `ConsumerSink`."""

    def __init__(
        self, peer: Peer, consumer_id: int, *, on_closed: Callable[[ConsumerSlot, str], None]
    ) -> None:
        self.consumer_id = consumer_id
        self.partition = -1  # -1 if the topic is not a partition
        self.consumer: ConsumerPort | None = None  # None while the consumer is being opened
        # UNSUBSCRIBE, SEEK and GET_LAST_MESSAGE_ID run one at a time, in order of arrival.
        self.turn = asyncio.Lock()
        self.is_closed = False
        self._peer = peer
        self._on_closed = on_closed

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Send these entries in one write."""
        send, consumer_id, partition = self._peer.engine.send_message, self.consumer_id, self.partition
        epoch = None if self.consumer is None else self.consumer.epoch
        for entry, redelivery_count, remaining in deliveries:
            send(
                consumer_id,
                ledger_id=entry.ledger_id,
                entry_id=entry.entry_id,
                entry=entry.data,
                partition=partition,
                redelivery_count=redelivery_count,
                ack_set=remaining,
                epoch=epoch,
            )
        self._peer.written()

    def is_writable(self) -> bool:
        """Return whether entries may be written to the peer."""
        return self._peer.is_writable()

    def on_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC to a client that understands the command."""
        self._peer.engine.send_reached_end_of_topic(self.consumer_id)
        self._peer.written()

    def on_consumer_closed(self, reason: str) -> None:
        """Tell the client that the broker has detached the consumer."""
        if not self.is_closed:
            self.is_closed = True
            self._on_closed(self, reason)

    def close_connection(self, reason: str) -> None:
        """Close the connection of a client that is too old to receive part of a batch."""
        self.is_closed = True
        self._peer.close(reason)

    def on_active_change(self, is_active: bool) -> None:
        """Send ACTIVE_CONSUMER_CHANGE."""
        if not self.is_closed:
            self._peer.engine.send_active_consumer_change(self.consumer_id, is_active=is_active)
            self._peer.written()

    async def is_alive(self) -> bool:
        """Return whether the peer answers a ping."""
        return await self._peer.is_alive()

    def ack(self, event: events.Ack) -> None:
        """Apply an ACK. If the client asked for an answer, send the answer after the ack is durable."""
        if self.consumer is None:
            return
        request_id = event.request_id
        if event.in_transaction:
            self._answer_ack(
                request_id, NotAllowed("transactions are not available; acknowledge without one")
            )
            return
        acks = [AckRequest(Position(ledger, entry), ack_set) for ledger, entry, ack_set in event.ids]
        reason = None if event.validation_error is None else event.validation_error.name
        if request_id is not None:
            self._peer.gate.ack_begun()
        self.consumer.ack(
            acks,
            cumulative=event.cumulative,
            on_durable=None if request_id is None else lambda error: self._ack_settled(request_id, error),
            validation_error=reason,
        )

    def _ack_settled(self, request_id: int, error: BrokerError | None) -> None:
        try:
            self._answer_ack(request_id, error)
        finally:
            self._peer.gate.ack_done()

    def _answer_ack(self, request_id: int | None, error: BrokerError | None) -> None:
        if request_id is None:
            return
        self._peer.engine.send_ack_response(
            self.consumer_id,
            request_id,
            code=None if error is None else server_error(error),
            message=None if error is None else str(error),
        )
        self._peer.written()

    def redeliver(self, event: events.Redeliver) -> None:
        """Redeliver the messages whose ids the client sent, or all unacked messages if the client sent no ids.

        A command with many ids arrives as several events. On Exclusive and Failover, the first event redelivers all
        unacked messages, so ignore the other events.
        """
        if self.consumer is not None and not (
            event.is_continuation and self.consumer.subscription_type.single_active
        ):
            positions = [Position(ledger, entry) for ledger, entry in event.positions]
            self.consumer.redeliver(positions or None, epoch=event.epoch)
