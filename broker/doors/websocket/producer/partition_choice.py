"""Which partition a message of the JSON face goes to, as Pulsar's client library chooses."""

from __future__ import annotations

import random

from broker.doors.websocket.json.options import HashingScheme, RoutingMode
from vela.wire.key_hash import java_string_hash, murmur3_string_hash

__all__ = ["PartitionChoice"]


class PartitionChoice:
    """By key where there is one; else one partition for the socket's life, or each in turn."""

    def __init__(
        self,
        partitions: int,
        *,
        routing: RoutingMode,
        hashing: HashingScheme,
        first: int | None = None,
    ) -> None:
        """`partitions` >= 1; `first` is where to begin, at random by default."""
        self._partitions = partitions
        self._takes_turns = routing is RoutingMode.ROUND_ROBIN
        self._hashing = hashing
        self._next = (
            random.randrange(partitions) if first is None else first  # noqa: S311 - spreads load, no secret
        )

    def of(self, key: str | None) -> int:
        """The partition for a message with this key, None = without."""
        if self._partitions == 1:
            return 0
        if key is not None:
            murmur = self._hashing is HashingScheme.MURMUR3_32
            return (murmur3_string_hash(key) if murmur else java_string_hash(key)) % self._partitions
        chosen = self._next
        if self._takes_turns:
            self._next = (chosen + 1) % self._partitions
        return chosen
