"""A token bucket: it allows a number of units per second, and one second's worth at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["TokenBucket", "TokenBuckets"]

_LOOKED_AT: Final = 3  # old buckets to check when a new one is made
_SET_BACK_MS: Final = 1000  # if a time is earlier than the last by more than this, the clock was set back


class TokenBucket:
    """A bucket that refills at `rate` units per second.

    `take` may take more units than there are. The missing units become a debt, which refills pay off first. So a single
    message larger than the limit passes, and the average rate is still kept. A `now_ms` before the last one adds
    nothing. If it is more than 1 s earlier, the clock was set back, and refills count from the new time.
    """

    __slots__ = ("_at_ms", "_thousandths", "rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        """`rate` is in units per second. Raises ValueError if it is below 1."""
        if rate < 1:
            raise ValueError(f"the rate is {rate} per second; it must be 1 or more")
        self.rate = rate
        self._thousandths = 1000 * rate  # of a unit: a millisecond adds a whole number of thousandths
        self._at_ms = now_ms

    def available(self, now_ms: int) -> int:
        """Return the whole units that may be taken now; 0 or less = none."""
        self._refill(now_ms)
        return self._thousandths // 1000

    def take(self, units: int, now_ms: int) -> None:
        """Take `units`, even if there are fewer."""
        self._refill(now_ms)
        self._thousandths -= 1000 * units

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until a whole unit is available; 0 = now."""
        self._refill(now_ms)
        return max(0, -((self._thousandths - 1000) // self.rate))

    def _refill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._thousandths = min(1000 * self.rate, self._thousandths + (now_ms - self._at_ms) * self.rate)
            self._at_ms = now_ms
        elif now_ms < self._at_ms - _SET_BACK_MS:
            self._at_ms = now_ms


class TokenBuckets:
    """A token bucket for each key. Full buckets are removed over time, because a full bucket equals a new one."""

    __slots__ = ("_buckets", "rate")

    def __init__(self, rate: int) -> None:
        """`rate` is in units per second for each key."""
        self.rate = rate
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: str, now_ms: int) -> TokenBucket:
        """Return the bucket of a key. Use it immediately: it may be removed when another key comes."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._forget_some(now_ms)
            bucket = self._buckets[key] = TokenBucket(self.rate, now_ms)
        return bucket

    def _forget_some(self, now_ms: int) -> None:
        # Check a few buckets for each new key. One would not let their number shrink, and all would take too long.
        for _ in range(min(_LOOKED_AT, len(self._buckets))):
            key, bucket = self._buckets.popitem(last=False)
            if bucket.available(now_ms) < self.rate:
                self._buckets[key] = bucket
