"""Change bytes and texts at random, into something that a broken or hostile peer might send."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

__all__ = ["INTEGERS", "TOKENS", "mutated_bytes"]

INTEGERS: Final = tuple(
    sorted(
        {
            max(0, (1 << bits) + step)
            for bits in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64)
            for step in (-1, 0, 1)
        }
    )
)
"""Numbers at which fields change their size or their sign."""

TOKENS: Final = (
    b"", b"\x00", b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xae", b"%00", b"%FF", b"%2F", b"%zz", b"%", b"&",
    b"=", b"/", b"//", b"..", b"'", b"''", b'"', b"\\", b"(" * 40, b"[" * 2000, b'{"a":' * 200, b"9" * 30, b"-1",
    b"1e999", b"NaN", b"null", b"true", b" AND ", b" OR ", b" NOT ", b" BETWEEN 1 AND ", b" IN (", b"||", b"*", b".*",
    b"(a+)+$",
    b"persistent://", b"non-persistent://public/default/a", b"-partition-0", b"public/default", b"\r\n", b"x" * 300,
    b"\x0e\x01", b"\x0e\x02", b"\x80" * 10, bytes(16), "\u0663".encode(), "\U0001f600".encode(),
)  # fmt: skip
"""Pieces that mean something to one of the parsers."""


def mutated_bytes(random: Random, example: bytes, others: Sequence[bytes]) -> bytes:
    """Return `example` with one to four changes. Some take a piece of `others`."""
    data = bytearray(example)
    for _ in range(1 + int(random.random() ** 2 * 4)):
        _change(random, data, others)
    return bytes(data)


def _change(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    chance = random.random()
    size = len(data)
    at = int(random.random() * size)
    if not size or chance < 0.15:
        data[at:at] = TOKENS[int(random.random() * len(TOKENS))]
    elif chance < 0.35:
        data[at] ^= 1 << random.getrandbits(3)
    elif chance < 0.5:
        data[at] = random.getrandbits(8)
    elif chance < 0.65:
        number = INTEGERS[int(random.random() * len(INTEGERS))]
        width = 1 << random.getrandbits(2)
        data[at : at + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, "big")
    elif chance < 0.75:
        del data[at : at + 1 + int(random.random() * 16)]
    elif chance < 0.82:
        del data[at:]
    elif chance < 0.9:
        piece = data[at : at + 1 + int(random.random() * 32)]
        data[at:at] = piece * (1 + random.getrandbits(2))
    else:
        other = others[int(random.random() * len(others))]
        data[at:] = other[int(random.random() * (len(other) + 1)) :]
