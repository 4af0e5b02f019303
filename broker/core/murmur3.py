"""Murmur3, which Pulsar's clients and brokers choose partitions, hash slots and ring points by."""

from __future__ import annotations

from typing import Final

__all__ = ["murmur3_32"]

_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


def murmur3_32(data: bytes) -> int:
    """Murmur3 x86 32-bit with seed 0, unsigned."""
    value = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & _MASK
    if whole != len(data):
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ value >> 16) * 0x85EBCA6B) & _MASK
    value = ((value ^ value >> 13) * 0xC2B2AE35) & _MASK
    return value ^ value >> 16


def _mixed(block: int) -> int:
    block = block * _C1 & _MASK
    return (block << 15 | block >> 17) * _C2 & _MASK
