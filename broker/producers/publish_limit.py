"""Limit the publish rate of a topic.

Above the limit, the broker stops reading from the producer's connection, as in Pulsar. Other producers on the
connection stop too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.core.limits.rate_limit import TokenBucket

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.policies import Policies
    from broker.log.sends import SendRequest
    from broker.producers.producer import Producer

__all__ = ["PublishLimit"]

CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class PublishLimit:
    """The token buckets of one topic, and the producers that wait for tokens."""

    def __init__(self, clock: Clock, *, messages: int, size_bytes: int, call_later: CallLater) -> None:
        """Set the limits per second. 0 means no limit. At least one limit must be above 0."""
        now_ms = clock.now_ms()
        self._clock = clock
        self._call_later = call_later
        self._messages = TokenBucket(messages, now_ms) if messages else None
        self._bytes = TokenBucket(size_bytes, now_ms) if size_bytes else None
        self._throttled: set[Producer] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.times = 0

    @classmethod
    def of(
        cls, policies: Policies, clock: Clock, call_later: CallLater, *, replaces: PublishLimit | None
    ) -> PublishLimit | None:
        """Return the limit that the policies set, or None. Resume the producers that the old limit stopped."""
        messages, size_bytes = policies.publish_rate_messages, policies.publish_rate_bytes
        if replaces is not None:
            replaces.release()
        if not messages and not size_bytes:
            return None
        limit = cls(clock, messages=messages, size_bytes=size_bytes, call_later=call_later)
        limit.times = 0 if replaces is None else replaces.times
        return limit

    def sent(self, producer: Producer, request: SendRequest) -> None:
        """Count a send. If a bucket is empty, stop reading from the producer."""
        now_ms = self._clock.now_ms()
        if self._messages is not None:
            self._messages.take(request.messages, now_ms)
        if self._bytes is not None:
            self._bytes.take(len(request.data), now_ms)
        if self._wait_ms(now_ms) and producer not in self._throttled:
            self.times += 1
            self._throttled.add(producer)
            producer.throttle(self, throttled=True)
            self._wait(now_ms)

    def release(self) -> None:
        """Resume every stopped producer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        throttled, self._throttled = self._throttled, set()
        for producer in throttled:
            producer.throttle(self, throttled=False)

    def _wait_ms(self, now_ms: int) -> int:
        return max(each.wait_ms(now_ms) for each in (self._messages, self._bytes) if each is not None)

    def _wait(self, now_ms: int) -> None:
        if self._timer is None and self._throttled:
            self._timer = self._call_later(self._wait_ms(now_ms) / 1000, self.refilled)

    def refilled(self) -> None:
        """Resume every stopped producer if the buckets have refilled."""
        self._timer = None
        now_ms = self._clock.now_ms()
        if self._wait_ms(now_ms):
            self._wait(now_ms)
        else:
            self.release()
