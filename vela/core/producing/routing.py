"""Choose the partition of a message: by its key or, without a key, by one of Pulsar's two routing modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from vela.core.producing.batching import BatchLimits
from vela.core.producing.outgoing import Outgoing

__all__ = ["RoundRobin", "Router", "SinglePartition"]


class Router(Protocol):
    """Chooses partitions."""

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """Return the partition for a message, from 0 to `partitions` - 1."""


class SinglePartition:
    """Sends every message without a key to one partition, chosen once from `seed`."""

    def __init__(self, hash_key: Callable[[str], int], *, seed: int) -> None:
        self._hash = hash_key
        self._seed: Final = seed
        self._chosen: int | None = None

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """Return the key's partition or, without a key, the chosen one. New partitions do not change the choice."""
        if message.key is not None:
            return self._hash(message.key) % partitions
        if self._chosen is None:
            self._chosen = self._seed % partitions
        return self._chosen


class RoundRobin:
    """Sends messages without a key to one partition after another."""

    def __init__(
        self, hash_key: Callable[[str], int], *, seed: int, limits: BatchLimits | None, delay_ms: int = 0
    ) -> None:
        """`limits`: those of a batch; None = no batching."""
        self._hash = hash_key
        self._cursor = seed
        self._limits = limits
        self._delay_ms = delay_ms
        self._changed_ms: int | None = None
        self._messages = 0
        self._bytes = 0

    def partition(self, message: Outgoing, partitions: int, now_ms: int) -> int:
        """Return the key's partition or, without a key, the next one.

        With batching, the partition changes only when the messages or bytes sent there would fill a batch, or
        `delay_ms` after the last change.
        """
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
