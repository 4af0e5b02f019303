"""Divide an entry's bytes between the entry's own row and rows of a second table, called `rest`.

PostgreSQL would need twice the CPU time to write an entry of 128 kB into a TOAST table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["FIRST_BYTES", "PAGE_BYTES", "divided"]

# A row of `rest` with this many bytes fills a page of 8 kB.
PAGE_BYTES: Final = 8064
_PARTS_BYTES: Final = (PAGE_BYTES // 2, PAGE_BYTES // 4)
FIRST_BYTES: Final = _PARTS_BYTES[-1]  # The entry's own row has at most this many bytes of data


def divided(data: bytes) -> tuple[bytes | memoryview, Sequence[memoryview]]:
    """Return the bytes for the entry's own row, and the bytes for each row of `rest`."""
    if len(data) <= FIRST_BYTES:
        return data, ()
    pages, at = divmod(len(data), PAGE_BYTES)
    sizes: list[int] = []
    for size_bytes in _PARTS_BYTES:
        if at > size_bytes:
            at -= size_bytes
            sizes.append(size_bytes)
    view = memoryview(data)
    first, rest = view[:at], []
    for size_bytes in (*sizes, *(PAGE_BYTES for _ in range(pages))):
        rest.append(view[at : at + size_bytes])
        at += size_bytes
    return first, rest
