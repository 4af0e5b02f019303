"""The part of the model that is particular to Failover."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import Delivery
from tests.model.client import Client
from tests.model.exclusive import ExclusiveMachine

__all__ = ["FailoverMachine"]


class _FailoverClient(Client):
    def __init__(
        self,
        name: str,
        on_delivery: Callable[[Client, Delivery, Position], None],
        on_told: Callable[[Client, bool], None],
    ) -> None:
        super().__init__(name, on_delivery)
        self._on_told = on_told

    def on_active_change(self, is_active: bool) -> None:
        super().on_active_change(is_active)
        self._on_told(self, is_active)


class FailoverMachine(ExclusiveMachine):
    """Like Exclusive, for the active consumer. After a switch, the new active consumer gets everything unacked."""

    type = SubscriptionType.FAILOVER
    max_consumers = 3

    def __init__(self) -> None:
        super().__init__()
        self.active: Client | None = None

    def new_client(self, name: str) -> Client:
        return _FailoverClient(name, self.delivered, self.told)

    def told(self, client: Client, is_active: bool) -> None:
        if is_active:
            self.active = client
            for each in self.clients:
                each.held.clear()
                each.last = None
        elif self.active is client:
            self.active = None

    def check_order(self, client: Client, delivery: Delivery, position: Position) -> None:
        """Check also that only the active consumer gets messages."""
        assert client is self.active, "sent to a consumer that is not active"
        assert self.subscription.dispatcher.due_ms is None, "sent while a switch waits"
        super().check_order(client, delivery, position)

    def is_served(self, client: Client) -> bool:
        dispatcher = self.subscription.dispatcher
        assert client.consumer is not None
        return dispatcher.due_ms is None and dispatcher.active is client.consumer.dispatch

    def give_back(self, client: Client, named: list[Position] | None) -> None:
        if self.is_served(client):
            super().give_back(client, named)

    def close_clients(self) -> None:
        """Remove the active client. Standby clients stay, because nothing was sent to them."""
        active = self.subscription.dispatcher.active
        self.clients = [
            each for each in self.clients if each.consumer and each.consumer.dispatch is not active
        ]

    def could_take(self, client: Client) -> bool:
        return self.is_served(client) and super().could_take(client)

    def check_nothing_waits(self) -> None:
        if self.active in self.clients:
            super().check_nothing_waits()

    def is_delivered(self, position: Position) -> bool:
        return self.active is not None and position in self.active.held

    def check(self) -> None:
        super().check()
        active = [each for each in self.clients if each.active and each.active[-1]]
        assert len(active) <= 1, "two consumers were told to be active"
