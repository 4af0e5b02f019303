"""A token bucket: so many units a second, one second's worth at once."""

from __future__ import annotations

__all__ = ["TokenBucket"]


class TokenBucket:
    """Units may be taken while there are any; what is taken beyond them is a debt that time pays off first.

    So one large message passes a small limit, and the average holds all the same. Time never goes back here: an earlier
    `now_ms` than the last one adds nothing.
    """

    __slots__ = ("_at_ms", "_thousandths", "rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        """`rate` units a second, at least 1."""
        if rate < 1:
            raise ValueError(f"a rate of {rate} a second: it must be 1 or more")
        self.rate = rate
        self._thousandths = 1000 * rate  # of a unit: what a millisecond brings is a whole number of them
        self._at_ms = now_ms

    def available(self, now_ms: int) -> int:
        """Whole units that may be taken now; 0 or less = none."""
        self._refill(now_ms)
        return self._thousandths // 1000

    def take(self, units: int, now_ms: int) -> None:
        """Take them, there or not."""
        self._refill(now_ms)
        self._thousandths -= 1000 * units

    def wait_ms(self, now_ms: int) -> int:
        """Milliseconds until a whole unit is there; 0 = now."""
        self._refill(now_ms)
        return max(0, -((self._thousandths - 1000) // self.rate))

    def _refill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._thousandths = min(1000 * self.rate, self._thousandths + (now_ms - self._at_ms) * self.rate)
            self._at_ms = now_ms
