"""One consumer of a binary connection: it sends entries as they are stored and takes acks and permits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.core.errors import BrokerError, NotAllowed
from broker.core.position import Position
from broker.doors.server_errors import server_error
from broker.subscription.requests import AckRequest, Delivery

if TYPE_CHECKING:
    from broker.doors.binary.peer import Peer
    from broker.doors.binary.wire.events import Ack, Redeliver
    from broker.doors.ports import ConsumerPort

__all__ = ["ConsumerSlot"]


class ConsumerSlot:
    """The consumer behind an id that the client chose. Implements `ConsumerSink`."""

    def __init__(
        self, peer: Peer, consumer_id: int, *, on_closed: Callable[[ConsumerSlot, str], None]
    ) -> None:
        """`on_closed` gets this slot and the reason when the broker has detached the consumer."""
        self.consumer_id = consumer_id
        self.partition = -1  # -1 = not a partition
        self.consumer: ConsumerPort | None = None  # None while it is being opened
        self.turn = asyncio.Lock()  # a consumer's requests run in the order of arrival
        self.is_closed = False
        self._peer = peer
        self._on_closed = on_closed

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Send these entries in one write, with their bytes unchanged."""
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
        """Return whether the peer is reading fast enough to take more."""
        return self._peer.is_writable()

    def on_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC, but only to clients that do not close the connection on it."""
        self._peer.engine.send_reached_end_of_topic(self.consumer_id)
        self._peer.written()

    def on_consumer_closed(self, reason: str) -> None:
        """The broker has detached the consumer. Tell the client, which then subscribes again."""
        if not self.is_closed:
            self.is_closed = True
            self._on_closed(self, reason)

    def close_connection(self, reason: str) -> None:
        """Close the connection: the client is too old for the messages it would get."""
        self.is_closed = True
        self._peer.close(reason)

    def on_active_change(self, is_active: bool) -> None:
        """Send ACTIVE_CONSUMER_CHANGE. The broker calls this for Failover subscriptions only."""
        if not self.is_closed:
            self._peer.engine.send_active_consumer_change(self.consumer_id, is_active=is_active)
            self._peer.written()

    async def is_alive(self) -> bool:
        """Ping the peer, because another client wants this consumer's place."""
        return await self._peer.is_alive()

    def ack(self, event: Ack) -> None:
        """Apply an ACK. If the client asked for an answer, send it once the ack is durable."""
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
        self.consumer.ack(
            acks,
            cumulative=event.cumulative,
            on_durable=None if request_id is None else lambda error: self._answer_ack(request_id, error),
            validation_error=reason,
        )

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

    def redeliver(self, event: Redeliver) -> None:
        """Redeliver the messages with these ids, or all pending messages if there are none."""
        if self.consumer is not None:
            positions = [Position(ledger, entry) for ledger, entry in event.positions]
            self.consumer.redeliver(positions or None, epoch=event.epoch)
