"""Ack sets: which members of a batch are still unacked, as an integer whose bit i stands for batch index i.

On the wire they are signed 64-bit words, lowest first. Words left out at the end are zero: their members are acked.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from vela.wire.varint import UINT64_MASK, signed64

__all__ = ["from_words", "full", "to_words"]

_WORD_BITS: Final = 64
_WORD_BYTES: Final = 8


def full(messages: int) -> int:
    """Return the ack set of an entry of `messages` messages, none of them acked."""
    return (1 << messages) - 1


def from_words(words: Sequence[int]) -> int | None:
    """Return the bitset, or None for an empty field, which means the whole entry and not "all acked"."""
    if not words:
        return None
    if len(words) == 1:
        return words[0] & UINT64_MASK
    packed = struct.pack(f"<{len(words)}Q", *[word & UINT64_MASK for word in words])
    return int.from_bytes(packed, "little")  # shifting in word after word would take quadratic time


def to_words(ack_set: int) -> list[int]:
    """Return the bitset as signed words, at least one, so that "all acked" is not taken for "whole entry"."""
    if ack_set <= UINT64_MASK:
        return [signed64(ack_set)]
    words = -(-ack_set.bit_length() // _WORD_BITS)
    return list(struct.unpack(f"<{words}q", ack_set.to_bytes(words * _WORD_BYTES, "little")))
