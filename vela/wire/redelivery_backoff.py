"""How long to wait before a message is delivered again: longer after each redelivery."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RedeliveryBackoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryBackoff:
    """`min_ms`, then `multiplier` times as long with each redelivery, at most `max_ms`."""

    min_ms: int  # >= 1
    max_ms: int  # >= min_ms
    multiplier: float  # 1 to 1000

    def __post_init__(self) -> None:
        if self.min_ms < 1 or self.max_ms < self.min_ms or not 1 <= self.multiplier <= 1000:
            raise ValueError("a back-off takes 1 <= min_ms <= max_ms and a multiplier from 1 to 1000")

    def delay_ms(self, redeliveries: int) -> int:
        """Return the wait after this many redeliveries."""
        try:
            grown = self.min_ms * float(self.multiplier) ** max(redeliveries, 0)
        except OverflowError:
            return self.max_ms
        return int(min(self.max_ms, grown))
