"""Divide an entry's bytes among rows.

PostgreSQL moves a value of more than 2 kB into a TOAST table, in chunks of 2 kB with an index row each. Writing 128 kB
that way takes twice the CPU time of writing 16 rows that fill a page each. So the broker divides the bytes itself: the
entry's row has the first bytes, and the rows of the segment's table `rest` have the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["FIRST_BYTES", "PAGE_BYTES", "divided"]

# A row of `rest` with this many bytes fills a page of 8 kB. Half or a quarter fills about half or a quarter of it.
PAGE_BYTES: Final = 8064
_PARTS_BYTES: Final = (PAGE_BYTES // 2, PAGE_BYTES // 4)
FIRST_BYTES: Final = _PARTS_BYTES[-1]  # at most this many bytes are in the entry's own row


def divided(data: bytes) -> tuple[bytes | memoryview, Sequence[memoryview]]:
    """Return the bytes of the entry's own row, and the bytes of each of its rows in `rest`, in order, without copying.

    At most two of the rows in `rest` are smaller than a page; they come first.
    """
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
