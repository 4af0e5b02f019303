"""Who owns which hash slot of a Key_Shared subscription (semantics 3.4)."""

from __future__ import annotations

from typing import Protocol

from broker.core.dispatchers.base import DispatchConsumer
from broker.core.hash_slots import SlotRange

__all__ = ["SlotSelector"]


class SlotSelector(Protocol):
    """Every slot has one owner at most; a join or a leave moves no slot that it need not move (I10)."""

    def select(self, slot: int) -> DispatchConsumer | None:
        """The owner; None when nobody covers the slot."""

    def add(self, consumer: DispatchConsumer) -> None:
        """A consumer joins. Raises ConsumerAssignFailed when its ranges are taken; nothing is changed then."""

    def remove(self, consumer: DispatchConsumer) -> None:
        """A consumer leaves; nothing happens when it is not in."""

    def ranges(self, consumer: DispatchConsumer) -> tuple[SlotRange, ...]:
        """The slots it owns, ascending."""
