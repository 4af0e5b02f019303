"""What a Key_Shared consumer asks for when it attaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.core.errors import ConsumerAssignFailed
from broker.core.hash_slots import SLOTS, SlotRange

__all__ = ["AUTO_SPLIT", "KeySharedPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySharedPolicy:
    """Consumers of one subscription agree on the mode and the flag; each has its own ranges."""

    sticky: bool = False  # the consumer names its slots; else the broker shares them out
    ranges: tuple[SlotRange, ...] = ()  # sticky only
    allow_out_of_order: bool = False  # a key may be at two consumers for a while when one joins or leaves

    def same_mode(self, other: KeySharedPolicy) -> bool:
        """Whether consumers with these two may share a subscription."""
        return (self.sticky, self.allow_out_of_order) == (other.sticky, other.allow_out_of_order)

    def check(self) -> None:
        """Raises ConsumerAssignFailed for sticky ranges that are missing, out of bounds or overlap each other."""
        if not self.sticky:
            return
        if not self.ranges:
            raise ConsumerAssignFailed("a sticky Key_Shared consumer names the hash ranges it wants")
        end = -1
        for first, last in sorted(self.ranges):
            if not 0 <= first <= last < SLOTS:
                raise ConsumerAssignFailed(
                    f"hash range {first}-{last}: the first slot is 0 or more, the last one below {SLOTS}"
                )
            if first <= end:
                raise ConsumerAssignFailed(f"the hash ranges overlap at slot {first}")
            end = last


AUTO_SPLIT: Final = KeySharedPolicy()
"""What a consumer gets that asks for nothing: the broker shares the slots out, and keeps the order."""
