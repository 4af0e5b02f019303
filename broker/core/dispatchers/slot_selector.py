"""The interface that maps the hash slots of a Key_Shared subscription to consumers."""

from __future__ import annotations

from typing import Protocol

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.hash_slots import SlotRange

__all__ = ["SlotSelector"]


class SlotSelector(Protocol):
    """The owners of the slots. Each slot has at most one owner.

    Adding a consumer moves slots only to that consumer. Removing a consumer moves only that consumer's slots.
    """

    def select(self, slot: int) -> DispatchConsumer | None:
        """Return the owner of the slot, or None if the slot has no owner."""

    def add(self, consumer: DispatchConsumer) -> None:
        """Add a consumer. Raises ConsumerAssignFailed, and changes nothing, if no slots can be assigned."""

    def remove(self, consumer: DispatchConsumer) -> None:
        """Remove a consumer. Safe to repeat."""

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        """Return the consumer's slots as ranges, in ascending order."""
