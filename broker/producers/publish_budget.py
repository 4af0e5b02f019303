"""Limit the bytes of publishes that the broker has not answered yet, over all connections of the process.

Each connection has its own limit, but thousands of connections together could still fill the memory while the database
is slow. Once the sum is above its limit, the broker stops reading from each connection that publishes, and keeps
reading from connections that only consume. When answers have brought the sum down to half of the limit, it reads from
all connections again. It always resumes, because it can give these answers without another frame from a client.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["PublishAccount", "PublishBudget"]


class Throttled(Protocol):
    """The part of a producer that the budget needs."""

    def throttle(self, limit: object, *, throttled: bool) -> None:
        """Stop or resume reading from the producer's connection because of `limit`."""


class PublishBudget:
    """The bytes of unanswered publishes over all topics, and their limit. Use it only from the event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self.size_bytes = 0
        self.pauses = 0  # how often a producer had to wait
        self._limit_bytes = limit_bytes
        self._paused: dict[Throttled, None] = {}

    def account(self) -> PublishAccount:
        """Open the account of one topic."""
        return PublishAccount(self)

    def add(self, producer: Throttled, size_bytes: int) -> None:
        """Count a publish. If the sum is above the limit, stop reading from its producer."""
        self.size_bytes += size_bytes
        if self.size_bytes > self._limit_bytes and producer not in self._paused:
            self.pauses += 1
            self._paused[producer] = None
            producer.throttle(self, throttled=True)

    def subtract(self, size_bytes: int) -> None:
        """Subtract publishes that have their answers. At half of the limit, resume every producer."""
        self.size_bytes -= size_bytes
        if self._paused and self.size_bytes <= self._limit_bytes // 2:
            paused, self._paused = self._paused, {}
            for producer in paused:
                producer.throttle(self, throttled=False)


class PublishAccount:
    """One topic's share of the budget."""

    __slots__ = ("_budget", "_size_bytes")

    def __init__(self, budget: PublishBudget) -> None:
        self._budget = budget
        self._size_bytes = 0

    def add(self, producer: Throttled, size_bytes: int) -> None:
        """Count a publish."""
        self._size_bytes += size_bytes
        self._budget.add(producer, size_bytes)

    def subtract(self, size_bytes: int) -> None:
        """Subtract publishes that have their answers: receipts or refusals."""
        size_bytes = min(size_bytes, self._size_bytes)  # the account may have been closed since
        self._size_bytes -= size_bytes
        self._budget.subtract(size_bytes)

    def close(self) -> None:
        """Subtract the whole share, even if sends still wait for answers: the topic leaves memory."""
        self.subtract(self._size_bytes)
