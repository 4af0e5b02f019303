"""The client's count of bytes, and the functions that it calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.flow.memory_limit import MemoryLimit


def test_waiting_calls_are_called_once_when_the_count_falls_below_the_mark() -> None:
    limit = MemoryLimit(100)
    called: list[str] = []
    limit.add(150)
    limit.when_below(lambda: called.append("a"))
    limit.when_below(lambda: called.append("b"))
    limit.remove(50)
    assert called == []
    limit.remove(1)
    limit.remove(1)
    assert called == ["a", "b"]


def test_every_waiting_call_is_called_even_if_one_fills_the_limit_again() -> None:
    limit = MemoryLimit(10)
    called: list[str] = []
    limit.add(10)
    limit.when_below(lambda: limit.add(20))
    limit.when_below(lambda: called.append("second"))
    limit.remove(5)
    assert called == ["second"]
    assert limit.used_bytes == 25


def test_zero_means_no_limit_and_a_negative_one_is_refused() -> None:
    limit = MemoryLimit(0)
    limit.add(1 << 60)
    assert not limit.is_reached
    with pytest.raises(ValueError, match="0 \\(no limit\\) or more"):
        MemoryLimit(-1)


@given(st.lists(st.integers(1, 1000), max_size=30), st.integers(1, 5000))
def test_the_count_is_the_difference_of_added_and_removed_bytes(sizes: list[int], mark: int) -> None:
    limit = MemoryLimit(mark)
    for size in sizes:
        limit.add(size)
    assert limit.is_reached == (sum(sizes) >= mark)
    for size in sizes:
        limit.remove(size)
    assert limit.used_bytes == 0
