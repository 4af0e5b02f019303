"""Hashes for partitions, hash slots and points of hash rings, as Pulsar's clients and brokers compute them."""

from __future__ import annotations

from typing import Final

import mmh3

__all__ = ["java_string_hash", "murmur3_32", "murmur3_string_hash"]

_MASK: Final = 0xFFFFFFFF
_INT_MAX: Final = 0x7FFFFFFF


def murmur3_32(data: bytes) -> int:
    """Return Murmur3 (x86, 32 bits, seed 0) as an unsigned number."""
    return mmh3.hash(data, 0, signed=False)


def murmur3_string_hash(text: str) -> int:
    """Return Murmur3 of the text in UTF-8, without its sign. It can choose the partition of a key."""
    return murmur3_32(text.encode()) & _INT_MAX


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode()`, over UTF-16 units, without its sign. It can choose the partition of a key."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & _MASK
    return value & _INT_MAX
