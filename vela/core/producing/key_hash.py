"""Hashes of message keys, which choose a key's partition. Apache's clients compute the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vela.options import HashingScheme
from vela.wire.key_hash import java_string_hash, murmur3_string_hash

__all__ = ["boost_hash", "key_hash"]

_U64: Final = 0xFFFFFFFFFFFFFFFF
_INT_MAX: Final = 0x7FFFFFFF


def key_hash(scheme: HashingScheme) -> Callable[[str], int]:
    """Return the function that maps a key to a number from 0 to 2^31 - 1."""
    return _FUNCTIONS[scheme]


def boost_hash(key: str) -> int:
    """Return Boost's hash of a string (1.81 and later, 64 bits) as Apache's C++ client cuts it: its low 31 bits."""
    data = key.encode()
    length = len(data)
    weight = _fold(_BOOST_Q)
    value = weight ^ length
    whole = length & ~7
    for start in range(0, whole, 8):
        weight = weight + _BOOST_Q & _U64
        value ^= _fold(int.from_bytes(data[start : start + 8], "little") + weight & _U64)
    weight = weight + _BOOST_Q & _U64
    value ^= _fold(_boost_tail(data[whole:]) + weight & _U64)
    return _fold(value + weight & _U64) & _INT_MAX


def _boost_tail(rest: bytes) -> int:
    """Return the last 0 to 7 bytes as one number. The reads may overlap."""
    size = len(rest)
    if size >= 4:
        high = int.from_bytes(rest[-4:], "little") << (size - 4) * 8
        return high | int.from_bytes(rest[:4], "little")
    if size == 0:
        return 0
    second, third = (size - 1) & 2, size >> 1
    return rest[second] << second * 8 | rest[third] << third * 8 | rest[0]


def _fold(value: int) -> int:
    """Return the combined halves of the 128-bit product with a constant."""
    product = value * _BOOST_K
    return (product & _U64) ^ (product >> 64)


_BOOST_Q: Final = 0x9E3779B97F4A7C15  # the golden ratio
_BOOST_K: Final = 0xDF442D22CE4859B9  # its square, low half

_FUNCTIONS: Final[dict[HashingScheme, Callable[[str], int]]] = {
    HashingScheme.BoostHash: boost_hash,
    HashingScheme.JavaStringHash: java_string_hash,
    HashingScheme.Murmur3_32Hash: murmur3_string_hash,
}
