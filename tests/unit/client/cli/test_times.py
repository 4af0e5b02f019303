"""Lengths and moments."""

from __future__ import annotations

import pytest

from vela.cli.times import iso, length_ms, moment_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1.5h", 5_400_000),
    ],
)
def test_lengths(text: str, ms: int) -> None:
    assert length_ms(text) == ms


@pytest.mark.parametrize("text", ["", "15", "m", "15 m", "-15m", "15min", "1h 30m", "٣m"])
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(ValueError, match="write 500ms, 90s"):
        length_ms(text)


def test_moments() -> None:
    assert moment_ms("2026-01-01T00:00:00+00:00") == 1_767_225_600_000
    assert moment_ms("2026-01-01T01:00:00.5+01:00") == 1_767_225_600_500
    assert moment_ms("1767225600000") == 1_767_225_600_000


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "12", "99999-01-01"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="milliseconds since 1970"):
        moment_ms(text)


@pytest.mark.parametrize("text", ["9999999999999999999", "253402300800000", "1969-12-31T00:00:00+00:00"])
def test_a_moment_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match="from 1970 to the end of 9999"):
        moment_ms(text)


def test_a_length_out_of_range() -> None:
    with pytest.raises(ValueError, match="too long"):
        length_ms("9" * 400 + "d")


def test_any_number_can_be_shown_as_a_time() -> None:
    assert iso(1_767_225_600_500) == "2026-01-01 00:00:00.500 UTC"
    assert iso(253_402_300_799_000) == "9999-12-31 23:59:59.000 UTC"
    assert iso(9_999_999_999_999_999_999) == "9999999999999999999 ms after 1970"
    assert iso(-(10**400)).endswith("ms after 1970")
