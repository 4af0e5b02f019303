"""The part of the model that is particular to Shared."""

from __future__ import annotations

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import Delivery
from tests.model.client import Client
from tests.model.machine import SubscriptionMachine

__all__ = ["SharedMachine"]


class SharedMachine(SubscriptionMachine):
    """One consumer holds a message, redeliveries are counted, and each consumer has a limit of unacked messages."""

    type = SubscriptionType.SHARED

    def check_order(self, client: Client, delivery: Delivery, position: Position) -> None:
        assert not self.is_delivered(position), "held already"
        assert delivery.redelivery_count == self.counts.get(position, 0)
        limit = self.limits[0]
        assert not limit or sum(map(len, client.held.values())) < limit, "sent while blocked"

    def give_back(self, client: Client, named: list[Position] | None) -> None:
        for position in list(client.held):
            if named is None or position in named:
                del client.held[position]
                self.counts[position] = self.counts.get(position, 0) + 1

    def check(self) -> None:
        super().check()
        self.held_once_and_counted()

    def held_once_and_counted(self) -> None:
        """Check pending messages, and the limits of unacked ones."""
        if not self.clients:
            return
        dispatcher = self.subscription.dispatcher
        total = 0
        for client in self.clients:
            assert client.consumer is not None
            dispatch = client.consumer.dispatch
            assert set(dispatch.pending) == set(client.held)
            held = sum(map(len, client.held.values()))
            assert dispatch.unacked_messages == dispatch.pending.messages == held
            total += held
            limit = dispatch.max_unacked
            assert limit == self.limits[0]
            if limit:
                assert dispatch.blocked or held < limit
                assert not dispatch.blocked or held > limit // 2
        assert dispatcher.unacked_messages == total
        limit = self.limits[1]
        assert not limit or dispatcher.blocked or total < limit
        assert not dispatcher.blocked or (limit and total >= limit // 2)
