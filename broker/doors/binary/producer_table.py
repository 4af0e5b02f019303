"""The producers of one binary connection, by the ids that the client chose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.core.errors import BrokerError, ServiceNotReady
from broker.doors.binary.producer import ProducerSlot
from broker.doors.binary.requests import producer_request
from vela.wire.binary.enums import ServerError
from vela.wire.errors import LocalProtocolError

if TYPE_CHECKING:
    from broker.doors.binary.peer import Peer
    from broker.doors.binary.request_runner import RequestRunner
    from broker.doors.binary.wire import events
    from broker.doors.ports import PublishPort

__all__ = ["ProducerTable"]

CLOSED_PRODUCER_MEMORY_S: Final = 30.0  # for this long, ignore SENDs to a producer that the broker closed
CLOSED_PRODUCERS_REMEMBERED: Final = 10_000


class ProducerTable:
    """Handles commands that concern producers."""

    def __init__(self, broker: PublishPort, peer: Peer, requests: RequestRunner) -> None:
        self._broker = broker
        self._peer = peer
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._slots: dict[int, ProducerSlot] = {}
        self._closed: dict[int, float] = {}  # producer id -> loop time when forgotten

    def lost(self) -> None:
        """Detach every producer: the connection is gone. The broker still stores the sends it has accepted."""
        slots = list(self._slots.values())
        self._slots.clear()
        for slot in slots:
            slot.is_closed = True
            if slot.producer is not None:
                slot.producer.detach()

    def on_send(self, event: events.Send) -> None:
        """Publish an entry. Close the connection on a SEND for a producer that was never open here."""
        slot = self._slots.get(event.producer_id)
        if slot is not None and slot.producer is not None:
            slot.send(event)
        elif not self._was_just_closed(event.producer_id):
            self._peer.fail(
                ServerError.METADATA_ERROR, f"SEND for producer {event.producer_id}, which is not open here"
            )

    def _was_just_closed(self, producer_id: int) -> bool:
        until = self._closed.get(producer_id)
        return until is not None and self._loop.time() < until

    def on_open_producer(self, event: events.OpenProducer) -> None:
        """Open a producer, or answer for the producer that already has this id."""
        known = self._slots.get(event.producer_id)
        if known is not None and known.producer is not None and known.epoch < event.epoch:
            # The client gave up on the old producer and will resend its sends in flight.
            known.producer.detach()
            known.forget_pending()
            self._forget(known)
            known = None
        if known is None:
            slot = self._slots[event.producer_id] = ProducerSlot(
                self._peer, event, self._broker.settings, on_closed=self._closed_by_broker
            )
            self._requests.run(
                event, self._open(slot, event), lambda error: self._refused(slot, event, error)
            )
        elif known.producer is None:
            busy = ServiceNotReady(f"producer {event.producer_id} is still being opened; try again")
            self._requests.refusal(event.request_id)(busy)
        else:
            known.request_id = event.request_id
            self._peer.engine.send_producer_success(
                event.request_id,
                name=known.producer.name,
                topic_epoch=known.producer.topic_epoch,
                ready=known.producer.is_ready,
            )

    async def _open(self, slot: ProducerSlot, event: events.OpenProducer) -> None:
        request = producer_request(event, on_ready=slot.on_ready, on_throttled=self._peer.gate.throttled)
        producer = await self._broker.open_producer(request, self._peer.identity, slot)
        if slot.is_closed:
            producer.detach()
            return
        slot.producer = producer
        self._closed.pop(slot.producer_id, None)
        slot.answer_open(producer)

    def _refused(self, slot: ProducerSlot, event: events.OpenProducer, error: BrokerError) -> None:
        if self._slots.get(slot.producer_id) is slot:
            del self._slots[slot.producer_id]
        if not slot.is_closed:
            self._requests.refusal(event.request_id)(error)

    def on_close_producer(self, event: events.CloseProducer) -> None:
        """Close a producer once its sends have their answers. Answer SUCCESS for an unknown id too."""
        slot = self._slots.get(event.producer_id)
        if slot is None or slot.producer is None:
            if slot is not None:
                slot.is_closed = True
                del self._slots[event.producer_id]
            self._peer.engine.send_success(event.request_id)
        else:
            self._requests.run(event, self._close(slot, event), self._requests.refusal(event.request_id))

    async def _close(self, slot: ProducerSlot, event: events.CloseProducer) -> None:
        async with slot.turn:
            if slot.producer is not None:
                await slot.producer.close()
            self._forget(slot)
            self._peer.engine.send_success(event.request_id)

    def _closed_by_broker(self, slot: ProducerSlot, error: BrokerError | None) -> None:
        """Tell the client, which looks the topic up and opens the producer again, or refuse one that still waited."""
        if self._slots.get(slot.producer_id) is slot:
            self._forget(slot)
            try:
                if slot.is_waiting:
                    reason = error or ServiceNotReady("the topic is moving; open the producer again")
                    self._requests.refusal(slot.request_id)(reason)
                else:
                    self._peer.engine.send_close_producer(slot.producer_id)
            except LocalProtocolError as failure:
                self._peer.close(str(failure))
            self._peer.written()

    def _forget(self, slot: ProducerSlot) -> None:
        slot.is_closed = True
        if self._slots.get(slot.producer_id) is slot:
            del self._slots[slot.producer_id]
            while len(self._closed) >= CLOSED_PRODUCERS_REMEMBERED:
                del self._closed[next(iter(self._closed))]
            self._closed[slot.producer_id] = self._loop.time() + CLOSED_PRODUCER_MEMORY_S
