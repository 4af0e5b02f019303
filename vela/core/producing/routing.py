"""Which partition a message goes to: Pulsar's two routings, by key where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from vela.core.producing.batching import BatchLimits
from vela.core.producing.outgoing import Outgoing

__all__ = ["RoundRobin", "Router", "SinglePartition"]


class Router(Protocol):
    """Chooses partitions."""

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """From 0 to `partitions` - 1."""


class SinglePartition:
    """Everything without a key to one partition, chosen by `seed` once."""

    def __init__(self, hash_key: Callable[[str], int], *, seed: int) -> None:
        self._hash = hash_key
        self._seed: Final = seed
        self._chosen: int | None = None

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """By key, else the chosen one, which stays when partitions are added."""
        if message.key is not None:
            return self._hash(message.key) % partitions
        if self._chosen is None:
            self._chosen = self._seed % partitions
        return self._chosen


class RoundRobin:
    """Partition after partition; with batching (`limits`) it stays on one for as long as a batch takes there."""

    def __init__(
        self, hash_key: Callable[[str], int], *, seed: int, limits: BatchLimits | None, delay_ms: int = 0
    ) -> None:
        self._hash = hash_key
        self._cursor = seed
        self._limits = limits
        self._delay_ms = delay_ms
        self._changed_ms: int | None = None
        self._messages = 0
        self._bytes = 0

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """By key, else the next, or with batching the current one until its batch is full or late."""
        if message.key is not None:
            return self._hash(message.key) % partitions
        limits = self._limits
        if limits is None:
            self._cursor += 1
            return self._cursor % partitions
        size = len(message.payload)
        if self._changed_ms is None:
            self._changed_ms = now_ms
        if (
            self._messages >= limits.max_messages
            or self._bytes + size > limits.max_bytes
            or now_ms - self._changed_ms >= self._delay_ms
        ) and self._messages:
            self._cursor += 1
            self._changed_ms, self._messages, self._bytes = now_ms, 0, 0
        self._messages += 1
        self._bytes += size
        return self._cursor % partitions
