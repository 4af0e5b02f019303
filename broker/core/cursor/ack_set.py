"""Ack sets: which members of a batch are still unacked, as an int whose bit i stands for batch index i.

On Pulsar's wire they are 64-bit words, lowest first, signed, with trailing zero words left out; absent bits
are acked.
"""

from __future__ import annotations

from collections.abc import Iterable

_WORD = 1 << 64


def full(messages: int) -> int:
    """Ack set of an entry of `messages` messages, none of them acked."""
    return (1 << messages) - 1


def without(messages: int, index: int) -> int:
    """Ack set of an entry of `messages` messages with only `index` acked."""
    return full(messages) & ~(1 << index)


def count(bits: int) -> int:
    """Messages still unacked."""
    return bits.bit_count()


def from_words(words: Iterable[int]) -> int:
    """Signed or unsigned 64-bit words, lowest first, to bits."""
    bits = 0
    for shift, word in enumerate(words):
        bits |= (word % _WORD) << (64 * shift)
    return bits


def to_words(bits: int) -> list[int]:
    """Bits to signed 64-bit words, lowest first, without trailing zero words."""
    words = []
    while bits:
        word = bits % _WORD
        words.append(word - _WORD if word >= _WORD >> 1 else word)
        bits >>= 64
    return words
