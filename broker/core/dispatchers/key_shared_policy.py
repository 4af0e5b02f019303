"""The Key_Shared options that a consumer asks for when it attaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.core.errors import ConsumerAssignFailed
from broker.core.hash_slots import SLOTS, SlotRange

__all__ = ["AUTO_SPLIT", "KeySharedPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySharedPolicy:
    """The options of one consumer. The consumers of a subscription must agree on all options except `ranges`."""

    sticky: bool = False
    ranges: tuple[SlotRange, ...] = ()
    allow_out_of_order: bool = False

    def same_mode(self, other: KeySharedPolicy) -> bool:
        """Return whether consumers with these two policies may share a subscription."""
        return (self.sticky, self.allow_out_of_order) == (other.sticky, other.allow_out_of_order)

    def check(self) -> None:
        """Check the sticky ranges. Raises ConsumerAssignFailed if ranges are missing, out of bounds or overlapping."""
        if not self.sticky:
            return
        if not self.ranges:
            raise ConsumerAssignFailed("a sticky Key_Shared consumer must name its hash ranges")
        end = -1
        for first, last in sorted(self.ranges):
            if not 0 <= first <= last < SLOTS:
                raise ConsumerAssignFailed(
                    f"hash range {first}-{last} is out of bounds: slots go from 0 to {SLOTS - 1}"
                )
            if first <= end:
                raise ConsumerAssignFailed(f"the hash ranges overlap at slot {first}")
            end = last


AUTO_SPLIT: Final = KeySharedPolicy()
