"""The hash slots that a Key_Shared subscription divides among its consumers."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from broker.core.position import Position
from vela.wire.key_hash import murmur3_32

__all__ = ["SLOTS", "SlotRange", "slot_of_key", "slot_of_position"]

SLOTS: Final = 65536
_GOLDEN: Final = 0x9E3779B1


class SlotRange(NamedTuple):
    """Slots from `first` to `last`, both included."""

    first: int
    last: int


@functools.lru_cache(maxsize=4096)
def slot_of_key(key: bytes) -> int:
    """Return the slot of a key, from 1 to 65535. A key that hashes to 0 gets slot 1."""
    return murmur3_32(key) % SLOTS or 1


def slot_of_position(position: Position) -> int:
    """Return the slot of an entry without a key, from 1 to 65535.

    Consecutive entries get slots that are far apart.
    """
    return ((position[0] * 31 + position[1]) * _GOLDEN >> 16) % SLOTS or 1
