"""The part of the model that is particular to Key_Shared."""

from __future__ import annotations

from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType
from broker.subscription.requests import Delivery
from tests.model.client import Client
from tests.model.shared import SharedMachine

__all__ = ["KeySharedMachine"]

_SLOTS = (1_000, 20_000, 40_000, 60_000)  # of four keys


class KeySharedMachine(SharedMachine):
    """Like Shared, but one consumer holds all messages of a key, and gets them in order."""

    type = SubscriptionType.KEY_SHARED

    def send(self, messages: int) -> None:
        at = self.producer.next_sequence_id * 7 + messages
        self.producer.send(messages=messages, slot=_SLOTS[at % len(_SLOTS)])

    def slot_of(self, position: Position) -> int | None:
        return self.storage.entries[position].key_hash

    def check_order(self, client: Client, delivery: Delivery, position: Position) -> None:
        """Check also that all pending messages of the entry's key are at one consumer, and come in order."""
        super().check_order(client, delivery, position)
        slot = self.slot_of(position)
        elsewhere = [each for each in self.clients if each is not client and self.holds_slot(each, slot)]
        assert not elsewhere, "its key is at another consumer"
        overtaken = [
            p
            for p in self.sizes()
            if p < position and self.slot_of(p) == slot and self.unacked_of(p) and p not in client.held
        ]
        assert not overtaken, f"overtakes {overtaken[0]} of its key"

    def holds_slot(self, client: Client, slot: int | None) -> bool:
        return any(self.slot_of(position) == slot for position in client.held)

    def check_nothing_waits(self) -> None:
        """Check that every entry that could be delivered was delivered.

        The model does not know the owner of a slot, so it checks only entries that every consumer could take.
        """
        if self.clients and all(self.could_take(client) for client in self.clients):
            for position in self.sizes():
                slot = self.slot_of(position)
                if self.unacked_of(position) and not any(
                    self.holds_slot(each, slot) for each in self.clients
                ):
                    raise AssertionError(f"{position} is deliverable, and not delivered")
