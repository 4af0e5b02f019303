"""Lengths of time and moments, as the command line reads and prints them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from vela.cli.text.times import exact_moment, length_ms, moment, moment_ms, moment_of


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
def test_a_length_of_time_is_read(text: str, ms: int) -> None:
    assert length_ms(text) == ms


@pytest.mark.parametrize("text", ["", "15", "m", "-15m", "15M", "٣m"])
def test_a_text_that_is_not_a_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write 500ms, 90s"):
        length_ms(text)


def test_a_moment_is_read_as_a_time_or_as_milliseconds() -> None:
    assert moment_ms("2026-01-01T00:00:00+00:00") == 1_767_225_600_000
    assert moment_ms("2026-01-01T01:00:00.5+01:00") == 1_767_225_600_500
    assert moment_ms("1767225600000") == 1_767_225_600_000
    assert moment_ms("0") == 0


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1767225600", "like seconds since 1970: write milliseconds, 1767225600000, or 2026-01-01T03:30:00+03:30"),
        ("1767225600.5", "like seconds since 1970: write milliseconds, 1767225600000, or"),
        ("1000", "'1000' is too short a number for a time: milliseconds since 1970 have 12 digits or more"),
        ("17672256000", "is too short a number for a time"),
    ],
)  # fmt: skip
def test_a_number_that_is_not_milliseconds_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        moment_ms(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "12", "99999-01-01"])
def test_a_text_that_is_not_a_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="milliseconds since 1970"):
        moment_ms(text)


@pytest.mark.parametrize("text", ["9999999999999999999", "253402300800000", "1969-12-31T00:00:00+00:00"])
def test_a_moment_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="from 1970 to the end of 9999"):
        moment_ms(text)


def test_a_length_out_of_range_is_refused() -> None:
    for text in ("9" * 20 + "d", "9" * 400 + "d"):
        with pytest.raises(ValueError, match="too long"):
            length_ms(text)


@pytest.mark.usefixtures("zone")
def test_times_are_shown_in_this_computers_zone() -> None:
    assert moment(1_767_225_600_500) == moment_of("2026-01-01T00:00:00.500Z") == "2026-01-01 03:30:00+03:30"
    assert moment(None) == moment(0) == moment_of(None) == "–"
    assert exact_moment(1_767_225_600_500) == "2026-01-01 03:30:00.500+03:30"
    assert exact_moment(0) == "1970-01-01 03:30:00+03:30"


@pytest.mark.parametrize("show", [moment, exact_moment])
def test_any_number_can_be_shown_as_a_time(show: Callable[[int], str]) -> None:
    assert show(9_999_999_999_999_999_999) == "9999999999999999999 ms after 1970"
    assert show(-(10**400)).endswith("ms after 1970")
