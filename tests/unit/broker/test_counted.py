"""Numbers in sentences."""

from __future__ import annotations

import pytest

from broker.core.counted import lasting


@pytest.mark.parametrize(
    ("length_ms", "shown"),
    [
        (400, "0 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (5 * 3_600_000, "5 h"),
        (1_795_343_424_000, "20,779 d"),
    ],
)
def test_a_length_is_in_the_largest_unit_that_fits(length_ms: int, shown: str) -> None:
    assert lasting(length_ms) == shown
