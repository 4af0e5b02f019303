"""The part of the model that is particular to Exclusive."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import Delivery
from tests.model.client import Client
from tests.model.machine import ALL, SubscriptionMachine

__all__ = ["ExclusiveMachine"]


class ExclusiveMachine(SubscriptionMachine):
    """Deliveries follow the log's order, and every redelivery begins after mark-delete."""

    type = SubscriptionType.EXCLUSIVE
    max_consumers = 1

    def check_order(self, client: Client, delivery: Delivery, position: Position) -> None:
        assert delivery.redelivery_count == 0
        assert client.last is None or position > client.last, "out of order"
        skipped = [p for p in self.sizes() if p < position and self.unacked_of(p) and p not in client.held]
        assert not skipped, "passed over"

    def give_back(self, client: Client, named: list[Position] | None) -> None:
        client.held.clear()
        client.last = None

    @precondition(lambda self: self.can_ack())
    @rule(data=st.data(), part=st.none() | st.integers(0, ALL))
    def ack_through(self, data: st.DataObject, part: int | None) -> None:
        client = self.someone(data)
        position = self.stored(data)
        upto = {m for m in self.everything() if m[0] < position}
        inside = {m for m in self.members_of(position) if part is None or not part >> m[1] & 1}
        beyond = position > self.cursor.mark_delete
        if beyond:
            self.take_acks(upto | inside)
        if self.undo is not None:
            self.undo.ack_through(position, upto | inside, is_beyond=beyond)
        self.now(lambda: client.acknowledge([position], part, cumulative=True))

    def check(self) -> None:
        super().check()
        for client in self.clients:
            assert client.consumer is not None
            assert client.consumer.dispatch.unacked_messages >= 0
