"""The token bucket allows a burst of one second, pays off a debt with time, and keeps the average rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.limits.rate_limit import TokenBucket


def test_a_burst_of_one_second_is_allowed_and_then_the_rate() -> None:
    bucket = TokenBucket(10, 1000)
    assert bucket.available(1000) == 10
    bucket.take(10, 1000)
    assert (bucket.available(1000), bucket.wait_ms(1000)) == (0, 100)
    assert bucket.available(1099) == 0
    assert (bucket.available(1100), bucket.wait_ms(1100)) == (1, 0)


def test_a_debt_is_paid_off_first() -> None:
    bucket = TokenBucket(10, 0)
    bucket.take(35, 0)
    assert bucket.wait_ms(0) == 2600
    assert bucket.wait_ms(2599) == 1
    assert bucket.available(2600) == 1


def test_a_clock_that_goes_back_adds_no_tokens() -> None:
    bucket = TokenBucket(10, 1000)
    bucket.take(10, 1000)
    assert bucket.available(0) == 0
    assert bucket.available(1500) == 5


def test_a_clock_that_is_set_back_by_an_hour_does_not_stop_the_flow_for_an_hour() -> None:
    bucket = TokenBucket(10, 3_600_000)
    bucket.take(10, 3_600_000)
    assert (bucket.available(0), bucket.wait_ms(0)) == (0, 100)
    assert (bucket.available(100), bucket.wait_ms(100)) == (1, 0)


@pytest.mark.parametrize("rate", [0, -1])
def test_without_a_rate_there_is_no_bucket(rate: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        TokenBucket(rate, 0)


@given(
    st.integers(1, 5000),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 200)), max_size=60),
)
def test_waiting_as_long_as_told_keeps_the_rate(rate: int, steps: list[tuple[int, int]]) -> None:
    bucket = TokenBucket(rate, 0)
    now_ms = taken = 0
    last = 0
    for idle_ms, units in steps:
        now_ms += idle_ms
        now_ms += bucket.wait_ms(now_ms)
        assert bucket.wait_ms(now_ms) == 0
        assert bucket.available(now_ms) >= 1
        # Up to now, the rate allows this much and one burst. Only the last take may exceed it.
        assert taken <= rate + rate * now_ms / 1000 + 1e-6
        bucket.take(units, now_ms)
        taken += units
        last = units
    assert taken - last <= rate + rate * now_ms / 1000 + 1e-6
