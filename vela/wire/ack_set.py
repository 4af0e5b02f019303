"""Ack sets: which members of a batch are still unacked, as an integer whose bit i stands for batch index i.

On the wire they are signed 64-bit words, lowest first. Words left out at the end are zero: their members are acked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vela.wire.varint import UINT64_MASK, signed64

__all__ = ["from_words", "full", "to_words"]

_WORD_BITS: Final = 64


def full(messages: int) -> int:
    """Return the ack set of an entry of `messages` messages, none of them acked."""
    return (1 << messages) - 1


def from_words(words: Sequence[int]) -> int | None:
    """Return the bitset, or None for an empty field, which means the whole entry and not "all acked"."""
    if not words:
        return None
    value = 0
    for word in reversed(words):
        value = value << _WORD_BITS | (word & UINT64_MASK)
    return value


def to_words(ack_set: int) -> list[int]:
    """Return the bitset as signed words, at least one, so that "all acked" is not taken for "whole entry"."""
    words = [signed64(ack_set & UINT64_MASK)]
    while ack_set := ack_set >> _WORD_BITS:
        words.append(signed64(ack_set & UINT64_MASK))
    return words
