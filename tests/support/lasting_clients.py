"""Clients that behave like real ones: they reopen closed producers and consumers, and resend what has no receipt.

They check each receipt against PostgreSQL when it arrives, so they notice a receipt that came too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from broker.core.errors import BrokerError
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.log.sends import Receipt, SendRequest
from broker.subscription.requests import AckRequest, Delivery
from tests.support.broker_harness import BrokerRun, ConsumerProbe, ProducerProbe, one_row, payload_of
from tests.support.storage_faults import Fault

__all__ = ["LastingConsumer", "LastingProducer"]

_AGAIN_S = 0.01


class LastingProducer(ProducerProbe):
    """Sends each payload until it has a receipt, in order."""

    def __init__(self, run: BrokerRun) -> None:
        super().__init__()
        self._run = run
        self._sent: dict[int, bytes] = {}  # payloads without a receipt, by sequence id
        self._waiting: list[bytes] = []
        self._opening: asyncio.Task[None] | None = None
        self.wrong: list[str] = []

    @property
    def is_done(self) -> bool:
        """Whether every payload has its receipt."""
        return not self._sent and not self._waiting

    def publish_all(self, payloads: Sequence[bytes]) -> None:
        """Begin to send these payloads."""
        self._waiting += payloads
        if self.producer is None:
            self._open_again()
        else:
            self._send()

    def _open_again(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        while True:
            try:
                await self._run.open(self)
                break
            except (BrokerError, Fault):
                await asyncio.sleep(_AGAIN_S)
        self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for payload in waiting:
            self._sent[self.next_sequence_id] = payload
            self.send(payload)

    def on_receipts(self, receipts: Sequence[Receipt]) -> None:
        """Check that each message gets only one receipt and that its entry is stored."""
        super().on_receipts(receipts)
        for each in receipts:
            if not self._sent.pop(each.sequence_id, None):
                self.wrong.append(f"two receipts for {each.sequence_id}")
            (stored,) = one_row(
                self._run.database_url,
                "SELECT count(*) FROM vela_entry WHERE ledger_id = %s AND entry_id = %s",
                each.ledger_id,
                each.entry_id,
            )
            if not stored:
                self.wrong.append(f"a receipt for {each} which is not stored")

    def on_producer_closed(self, error: BrokerError | None) -> None:
        """Open the producer again and resend the messages without a receipt."""
        super().on_producer_closed(error)
        self.producer = None
        self._waiting = [*self._sent.values(), *self._waiting]
        self._sent.clear()
        self._open_again()

    def on_send_failed(self, request: SendRequest, error: BrokerError) -> None:
        """Record the failure and do nothing more: the broker closes the producer next."""
        super().on_send_failed(request, error)


class LastingConsumer(ConsumerProbe):
    """Tries to subscribe until it succeeds, acks each message with a receipt, and subscribes again when closed."""

    def __init__(
        self,
        run: BrokerRun,
        subscription: str,
        type_: SubscriptionType = SubscriptionType.SHARED,
        *,
        permits: int = 1000,
    ) -> None:
        super().__init__()
        self._run = run
        self._subscription = subscription
        self._type = type_
        self._permits = permits
        self._opening: asyncio.Task[None] | None = None
        self.asked = 0
        self.answers: list[BrokerError | None] = []
        self.durable: set[Position] = set()
        self.wrong: list[str] = []

    @property
    def has_all_answers(self) -> bool:
        """Whether every ack has been answered."""
        return self.asked == len(self.answers)

    def attach(self) -> None:
        """Begin to consume."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._attach())

    async def attached(self) -> None:
        """Wait until it has subscribed."""
        assert self._opening is not None
        await self._opening

    async def _attach(self) -> None:
        while True:
            try:
                await self._run.attach(self, subscription=self._subscription, type_=self._type)
                break
            except (BrokerError, Fault):
                await asyncio.sleep(_AGAIN_S)
        if self._permits:
            super().flow(self._permits)

    def flow(self, permits: int) -> None:
        """Grant permits, now and each time that it subscribes again."""
        self._permits = permits
        if self.consumer is not None:
            super().flow(permits)

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """Ack the deliveries."""
        super().deliver(deliveries)
        for each in deliveries:
            self.acknowledge(Position(each.entry.ledger_id, each.entry.entry_id))

    def acknowledge(self, position: Position) -> None:
        """Ask for an ack with a receipt."""
        if self.consumer is None:
            return
        self.asked += 1
        self.consumer.ack(
            [AckRequest(position)], cumulative=False, on_durable=partial(self._answered, position)
        )

    def on_consumer_closed(self, reason: str) -> None:
        """Subscribe again."""
        super().on_consumer_closed(reason)
        self.consumer = None
        self.attach()

    def _answered(self, position: Position, error: BrokerError | None) -> None:
        self.answers.append(error)
        if error is not None:
            return
        self.durable.add(position)
        (stored,) = one_row(
            self._run.database_url,
            "SELECT c.acked_messages FROM vela_cursor c JOIN vela_subscription s ON s.id = c.subscription_id"
            " WHERE s.name = %s",
            self._subscription,
        )
        if stored < len(self.durable):
            self.wrong.append(f"a receipt for {position}; {stored} acks are stored, {len(self.durable)} told")

    @property
    def all_payloads(self) -> set[bytes]:
        """All received payloads, each once."""
        return {payload_of(each.entry.data) for each in self.deliveries}
