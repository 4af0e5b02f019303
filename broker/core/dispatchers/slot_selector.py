"""The interface that maps the hash slots of a Key_Shared subscription to consumers."""

from __future__ import annotations

from typing import Protocol

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.hash_slots import SlotRange

__all__ = ["SlotSelector"]


class SlotSelector(Protocol):
    """Each slot has at most one owner. Slots move only to a consumer that joins, or from one that leaves."""

    def select(self, slot: int) -> DispatchConsumer | None:
        """Return the owner of the slot, or None if no consumer covers it."""

    def add(self, consumer: DispatchConsumer) -> None:
        """Add a consumer. Raises ConsumerAssignFailed, without a change, if it cannot have slots."""

    def remove(self, consumer: DispatchConsumer) -> None:
        """Remove a consumer. Does nothing if it was not added."""

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        """Return the slots the consumer owns, ascending."""
