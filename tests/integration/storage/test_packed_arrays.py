"""Packed arrays have the bytes that PostgreSQL itself sends for the same items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log.packed_arrays import bigints, byteas, integers, smallints


@pytest.fixture(scope="module")
def connection(migrated_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        yield connection


def ints(bits: int, *, max_size: int = 20) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1), max_size=max_size)


@given(ints(64), ints(16), st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), max_size=20))
def test_numbers_have_the_bytes_that_postgresql_sends(
    connection: psycopg.Connection[Any], big: list[int], small: list[int], some: list[int | None]
) -> None:
    sent = connection.execute(
        "SELECT array_send(%b::bigint[]), array_send(%b::smallint[]), array_send(%b::integer[])",
        (big, small, some),
    ).fetchone()
    assert sent == (bigints(big), smallints(small), integers(some))


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_values_have_the_bytes_that_postgresql_sends(
    connection: psycopg.Connection[Any], values: list[bytes]
) -> None:
    sent = connection.execute("SELECT array_send(%b::bytea[])", (values,)).fetchone()
    assert sent == (byteas(values),)


@pytest.mark.parametrize(
    ("pack", "number"), [(bigints, 1 << 63), (integers, 1 << 31), (smallints, -(1 << 15) - 1)]
)
def test_a_number_that_is_too_large_is_an_error_of_the_data(
    pack: Callable[[Sequence[int]], bytes], number: int
) -> None:
    with pytest.raises(psycopg.DataError, match="does not fit"):
        pack([1, number])


def test_a_large_number_beside_null_is_an_error_of_the_data() -> None:
    with pytest.raises(psycopg.DataError, match="does not fit"):
        integers([None, 1 << 31])
