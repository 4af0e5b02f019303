"""PostgreSQL reads packed arrays as the same items that were packed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log.packed_arrays import Bigints, Byteas, Integers, Smallints


@pytest.fixture(scope="module")
def connection(migrated_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        yield connection


def ints(bits: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1), max_size=20)


@given(ints(64), ints(16), st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), max_size=20))
def test_numbers_arrive(
    connection: psycopg.Connection[Any], big: list[int], small: list[int], some: list[int | None]
) -> None:
    row = connection.execute(
        "SELECT %b::bigint[], %b::smallint[], %b::integer[]", (Bigints(big), Smallints(small), Integers(some))
    ).fetchone()
    assert row == (big, small, some)


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_bytes_arrive(connection: psycopg.Connection[Any], values: list[bytes]) -> None:
    assert connection.execute("SELECT %b::bytea[]", (Byteas(values),)).fetchone() == (values,)


def test_arrays_of_one_length_become_rows(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        "SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::bytea[])",
        (Bigints(range(1000)), Integers([None, *range(999)]), Byteas([b"x" * 1000] * 1000)),
    ).fetchall()
    assert rows == [(number, number - 1 if number else None, b"x" * 1000) for number in range(1000)]


@pytest.mark.parametrize(
    ("array", "number"), [(Bigints, 1 << 63), (Integers, 1 << 31), (Smallints, -(1 << 15) - 1)]
)
def test_a_number_that_is_too_large_is_an_error_of_the_data(array: type[Integers], number: int) -> None:
    with pytest.raises(psycopg.DataError, match=array.__name__):
        array([1, number])


def test_a_large_number_beside_null_is_an_error_of_the_data() -> None:
    with pytest.raises(psycopg.DataError, match="Integers"):
        Integers([None, 1 << 31])
