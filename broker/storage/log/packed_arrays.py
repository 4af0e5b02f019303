"""Arrays packed in PostgreSQL's binary format, in one pass.

psycopg looks at each item of a list to choose a type, and dumps each with a call of its own. For the arrays of an
append, that takes 42 µs for one entry and 2.2 ms for 1,000 of 1 KB. These classes take 16 µs and 0.6 ms.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Final, cast

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

__all__ = ["Bigints", "Byteas", "Integers", "Smallints"]

_HEAD: Final = struct.Struct(
    "!iiiii"
)  # dimensions, has NULLs, the items' type, their number, index of the first
_EMPTY: Final = struct.Struct("!iii")
_SIZE: Final = struct.Struct("!i")
_NULL: Final = _SIZE.pack(-1)


class _Packed:
    """An array whose bytes are ready. Each subclass names one of PostgreSQL's types."""

    __slots__ = ("data",)
    item_oid: int
    array_oid: int

    def __init__(self, items: Sequence[bytes]) -> None:
        self.data = self._head(len(items)) + b"".join(items)

    @classmethod
    def _head(cls, count: int, *, has_nulls: bool = False) -> bytes:
        return _HEAD.pack(1, has_nulls, cls.item_oid, count, 1) if count else _EMPTY.pack(0, 0, cls.item_oid)


class _PackedNumbers(_Packed):
    __slots__ = ()
    code: str
    size_bytes: int

    def __init__(self, numbers: Sequence[int]) -> None:
        """Pack whole numbers. Raises psycopg.DataError if one of them is too large for the type."""
        count = len(numbers)
        try:
            items = _numbers(self.code, count).pack(
                *chain.from_iterable(zip(repeat(self.size_bytes), numbers))
            )
        except struct.error as error:
            raise psycopg.DataError(f"a number does not fit into {type(self).__name__}: {error}") from error
        self.data = self._head(count) + items


@lru_cache(maxsize=128)
def _numbers(code: str, count: int) -> struct.Struct:
    return struct.Struct("!" + f"i{code}" * count)


class Bigints(_PackedNumbers):
    """`bigint[]`."""

    __slots__ = ()
    code, size_bytes = "q", 8
    item_oid, array_oid = 20, 1016


class Smallints(_PackedNumbers):
    """`smallint[]`."""

    __slots__ = ()
    code, size_bytes = "h", 2
    item_oid, array_oid = 21, 1005


class Integers(_PackedNumbers):
    """`integer[]`, in which None is NULL."""

    __slots__ = ()
    code, size_bytes = "i", 4
    item_oid, array_oid = 23, 1007

    def __init__(self, numbers: Sequence[int | None]) -> None:
        """Pack whole numbers. Raises psycopg.DataError if one of them is too large for the type."""
        if None not in numbers:
            super().__init__(cast(Sequence[int], numbers))
            return
        one = _numbers("i", 1)
        try:
            items = [_NULL if number is None else one.pack(4, number) for number in numbers]
        except struct.error as error:
            raise psycopg.DataError(f"a number does not fit into Integers: {error}") from error
        self.data = self._head(len(items), has_nulls=True) + b"".join(items)


class Byteas(_Packed):
    """`bytea[]`."""

    __slots__ = ()
    item_oid, array_oid = 17, 1001

    def __init__(self, values: Sequence[bytes]) -> None:
        """Copy the values, each behind its size."""
        pack = _SIZE.pack
        items = [part for value in values for part in (pack(len(value)), value)]
        self.data = b"".join((self._head(len(values)), *items))


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _Packed) -> bytes:
        return obj.data


for _type in (Bigints, Smallints, Integers, Byteas):
    # Only these classes are concerned, so the registration may be global.
    psycopg.adapters.register_dumper(
        _type, type(f"{_type.__name__}Dumper", (_PackedDumper,), {"oid": _type.array_oid})
    )
