"""Dispatch rates: of a topic, shared by its subscriptions, and of each subscription (semantics 3.5).

Upstream looks again after 1000 ms; here the subscription goes on when the next message may leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from broker.core.rate_limit import TokenBucket

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.policies import Policies
    from broker.subscription.requests import Delivery

__all__ = ["DispatchLimit", "RatePair", "rates_of"]

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class RatePair:
    """Messages and bytes a second; 0 = no limit."""

    __slots__ = ("bytes", "messages")

    def __init__(self, messages: int, size_bytes: int, now_ms: int) -> None:
        self.messages = TokenBucket(messages, now_ms) if messages else None
        self.bytes = TokenBucket(size_bytes, now_ms) if size_bytes else None

    @classmethod
    def of(cls, messages: int, size_bytes: int, now_ms: int) -> RatePair | None:
        """None when neither is limited."""
        return cls(messages, size_bytes, now_ms) if messages or size_bytes else None


def rates_of(policies: Policies) -> tuple[int, ...]:
    """Every rate in the policies: buckets are filled anew only when one of them changes."""
    return (
        policies.publish_rate_messages,
        policies.publish_rate_bytes,
        policies.dispatch_rate_messages,
        policies.dispatch_rate_bytes,
        policies.subscription_dispatch_rate_messages,
        policies.subscription_dispatch_rate_bytes,
    )


class DispatchLimit:
    """What one subscription may send now. `pump` is called when it may send again."""

    def __init__(
        self, clock: Clock, rates: Sequence[RatePair], *, pump: Callable[[], None], call_later: CallLater
    ) -> None:
        self._clock = clock
        self._pump = pump
        self._call_later = call_later
        self._messages = [each.messages for each in rates if each.messages is not None]
        self._bytes = [each.bytes for each in rates if each.bytes is not None]
        self._timer: asyncio.TimerHandle | None = None
        self.times = 0  # it had to wait

    @classmethod
    def of(
        cls,
        clock: Clock,
        rates: Iterable[RatePair | None],
        *,
        pump: Callable[[], None],
        replaces: DispatchLimit | None,
    ) -> DispatchLimit | None:
        """The limit in place of an earlier one, whose count goes on; None when there is no rate to keep."""
        limited = [each for each in rates if each is not None]
        if replaces is not None:
            replaces.close()
        if not limited:
            return None
        limit = cls(clock, limited, pump=pump, call_later=asyncio.get_running_loop().call_later)
        limit.times = replaces.times if replaces is not None else 0
        return limit

    def entries(self) -> int:
        """How many entries may be read for sending; 0 = none now, `pump` comes."""
        now_ms = self._clock.now_ms()
        wait_ms = max(each.wait_ms(now_ms) for each in (*self._messages, *self._bytes))
        if wait_ms:
            if self._timer is None:
                self.times += 1
                self._timer = self._call_later(wait_ms / 1000, self._refilled)
            return 0
        return min((each.available(now_ms) for each in self._messages), default=2**31)

    def sent(self, deliveries: Iterable[Delivery]) -> None:
        """Count what leaves."""
        now_ms = self._clock.now_ms()
        messages = size_bytes = 0
        for entry, _, remaining in deliveries:
            messages += entry.messages if remaining is None else remaining.bit_count()
            size_bytes += len(entry.data)
        for bucket in self._messages:
            bucket.take(messages, now_ms)
        for bucket in self._bytes:
            bucket.take(size_bytes, now_ms)

    def close(self) -> None:
        """Another limit takes its place, or none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refilled(self) -> None:
        self._timer = None
        self._pump()
