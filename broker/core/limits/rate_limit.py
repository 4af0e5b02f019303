"""Token buckets, which limit a rate of messages or other units. A full bucket holds one second's worth of units."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["TokenBucket", "TokenBuckets"]

_LOOKED_AT: Final = 3
_SET_BACK_MS: Final = 1000  # If the clock was set back by more than this, refill from the new time on


class TokenBucket:
    """A bucket that refills at `rate` units per second."""

    __slots__ = ("_at_ms", "_thousandths", "rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        if rate < 1:
            raise ValueError(f"the rate is {rate} per second; it must be 1 or more")
        self.rate = rate
        self._thousandths = 1000 * rate
        self._at_ms = now_ms

    def available(self, now_ms: int) -> int:
        """Return the number of whole units that may be taken now. A negative number is a debt."""
        self._refill(now_ms)
        return self._thousandths // 1000

    def take(self, units: int, now_ms: int) -> None:
        """Take `units`, even if the bucket holds fewer, because a single message may be larger than the limit."""
        self._refill(now_ms)
        self._thousandths -= 1000 * units

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until a whole unit is available."""
        self._refill(now_ms)
        return max(0, -((self._thousandths - 1000) // self.rate))

    def _refill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._thousandths = min(1000 * self.rate, self._thousandths + (now_ms - self._at_ms) * self.rate)
            self._at_ms = now_ms
        elif now_ms < self._at_ms - _SET_BACK_MS:
            self._at_ms = now_ms


class TokenBuckets:
    """One token bucket for each key. Full buckets are removed, because a full bucket equals a new bucket."""

    __slots__ = ("_buckets", "rate")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, key: str, now_ms: int) -> TokenBucket:
        """Return the bucket of a key. A later call may remove the bucket."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._forget_some(now_ms)
            bucket = self._buckets[key] = TokenBucket(self.rate, now_ms)
        return bucket

    def _forget_some(self, now_ms: int) -> None:
        # Each new key adds a bucket, so check more than one. Checking all buckets would take too long.
        for _ in range(min(_LOOKED_AT, len(self._buckets))):
            key, bucket = self._buckets.popitem(last=False)
            if bucket.available(now_ms) < self.rate:
                self._buckets[key] = bucket
