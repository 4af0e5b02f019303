"""Limit the total bytes of unanswered publishes in the process.

Above the limit, the broker stops reading from connections that publish. The broker can answer the counted publishes
without reading more, so reading always resumes.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["PublishAccount", "PublishBudget"]


class Throttled(Protocol):
    """The part of a producer that the budget needs."""

    def throttle(self, limit: object, *, throttled: bool) -> None:
        """Stop or resume reading from the client because of `limit`."""


class PublishBudget:
    """The bytes of all unanswered publishes. Call the methods only from the event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self.size_bytes = 0
        self.pauses = 0
        self._limit_bytes = limit_bytes
        self._paused: dict[Throttled, None] = {}

    def account(self) -> PublishAccount:
        """Return a new account for one topic."""
        return PublishAccount(self)

    def add(self, producer: Throttled, size_bytes: int) -> None:
        """Count a publish. Above the limit, stop reading from the producer."""
        self.size_bytes += size_bytes
        if self.size_bytes > self._limit_bytes and producer not in self._paused:
            self.pauses += 1
            self._paused[producer] = None
            producer.throttle(self, throttled=True)

    def subtract(self, size_bytes: int) -> None:
        """Subtract answered publishes. At half of the limit, resume all producers."""
        self.size_bytes -= size_bytes
        if self._paused and self.size_bytes <= self._limit_bytes // 2:
            paused, self._paused = self._paused, {}
            for producer in paused:
                producer.throttle(self, throttled=False)


class PublishAccount:
    """The bytes of one topic's unanswered publishes."""

    __slots__ = ("_budget", "_size_bytes")

    def __init__(self, budget: PublishBudget) -> None:
        self._budget = budget
        self._size_bytes = 0

    def add(self, producer: Throttled, size_bytes: int) -> None:
        """Count a publish."""
        self._size_bytes += size_bytes
        self._budget.add(producer, size_bytes)

    def subtract(self, size_bytes: int) -> None:
        """Subtract answered publishes."""
        size_bytes = min(size_bytes, self._size_bytes)  # A closed account has 0 bytes
        self._size_bytes -= size_bytes
        self._budget.subtract(size_bytes)

    def close(self) -> None:
        """Subtract all bytes of the topic."""
        self.subtract(self._size_bytes)
