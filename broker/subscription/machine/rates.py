"""Dispatch rates of topics and subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from broker.core.limits.rate_limit import TokenBucket

if TYPE_CHECKING:
    from broker.core.policies import Policies
    from broker.subscription.requests import Delivery

__all__ = ["DispatchLimit", "RatePair", "rates_of"]


class RatePair:
    """The token buckets for messages per second and bytes per second. An unlimited rate has no bucket."""

    __slots__ = ("bytes", "messages")

    def __init__(self, messages: int, size_bytes: int, now_ms: int) -> None:
        self.messages = TokenBucket(messages, now_ms) if messages else None
        self.bytes = TokenBucket(size_bytes, now_ms) if size_bytes else None

    @classmethod
    def of(cls, messages: int, size_bytes: int, now_ms: int) -> RatePair | None:
        """Return the pair, or None if both rates are unlimited."""
        return cls(messages, size_bytes, now_ms) if messages or size_bytes else None


def rates_of(policies: Policies) -> tuple[int, ...]:
    """Return all rates in the policies, including publish rates."""
    return (
        policies.publish_rate_messages,
        policies.publish_rate_bytes,
        policies.dispatch_rate_messages,
        policies.dispatch_rate_bytes,
        policies.subscription_dispatch_rate_messages,
        policies.subscription_dispatch_rate_bytes,
    )


class DispatchLimit:
    """The dispatch rates that limit one subscription."""

    def __init__(self, rates: Sequence[RatePair], *, times: int = 0) -> None:
        self._messages = [each.messages for each in rates if each.messages is not None]
        self._bytes = [each.bytes for each in rates if each.bytes is not None]
        self._waits_until_ms = 0
        self.times = times  # Number of waits so far

    @classmethod
    def of(
        cls,
        policies: Policies,
        topic_rate: RatePair | None,
        *,
        now_ms: int,
        replaces: DispatchLimit | None,
    ) -> DispatchLimit | None:
        """Return the limit, or None if no rate is set."""
        own = RatePair.of(
            policies.subscription_dispatch_rate_messages, policies.subscription_dispatch_rate_bytes, now_ms
        )
        limited = [each for each in (topic_rate, own) if each is not None]
        if not limited:
            return None
        return cls(limited, times=0 if replaces is None else replaces.times)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long delivery must wait. The first call during a wait adds 1 to `times`."""
        wait_ms = max(each.wait_ms(now_ms) for each in (*self._messages, *self._bytes))
        if not wait_ms:
            self._waits_until_ms = now_ms  # The old value may be far in the future if the clock was set back
        elif self._waits_until_ms <= now_ms:
            self.times += 1
            self._waits_until_ms = now_ms + wait_ms
        return wait_ms

    def is_waiting(self, now_ms: int) -> bool:
        """Return whether delivery is waiting."""
        return now_ms < self._waits_until_ms

    def entries(self, now_ms: int) -> int:
        """Return how many entries may be read for sending. Call this only after `wait_ms` has returned 0."""
        return min((each.available(now_ms) for each in self._messages), default=2**31)

    def sent(self, deliveries: Iterable[Delivery], now_ms: int) -> None:
        """Take tokens for the messages and bytes of these deliveries."""
        messages = size_bytes = 0
        for entry, _, remaining in deliveries:
            messages += entry.messages if remaining is None else remaining.bit_count()
            size_bytes += len(entry.data)
        for bucket in self._messages:
            bucket.take(messages, now_ms)
        for bucket in self._bytes:
            bucket.take(size_bytes, now_ms)
