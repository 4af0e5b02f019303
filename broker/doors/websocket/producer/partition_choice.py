"""Choose a partition for each message. A message with a key gets the same partition as in Pulsar's clients."""

from __future__ import annotations

import random

from broker.doors.websocket.json.options import HashingScheme, RoutingMode
from vela.wire.key_hash import java_string_hash, murmur3_string_hash

__all__ = ["PartitionChoice"]


class PartitionChoice:
    """Chooses a partition by the message's key. Single routing sends all messages without a key to one partition."""

    def __init__(
        self,
        partitions: int,
        *,
        routing: RoutingMode,
        hashing: HashingScheme,
        first: int | None = None,
    ) -> None:
        """The first message without a key goes to partition `first`, or by default to a random partition."""
        self._partitions = partitions
        self._takes_turns = routing is RoutingMode.ROUND_ROBIN
        self._hashing = hashing
        self._next = (
            random.randrange(partitions) if first is None else first  # noqa: S311 - spreads load, no secret
        )

    def of(self, key: str | None) -> int:
        """Return the index of the partition for this key."""
        if self._partitions == 1:
            return 0
        if key is not None:
            murmur = self._hashing is HashingScheme.MURMUR3_32
            return (murmur3_string_hash(key) if murmur else java_string_hash(key)) % self._partitions
        chosen = self._next
        if self._takes_turns:
            self._next = (chosen + 1) % self._partitions
        return chosen
