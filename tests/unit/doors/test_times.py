"""Timestamps, compared with datetime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.doors.times import format_time, parse_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IN_RANGE = st.integers(0, (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1))


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_714_557_600_000, "2024-05-01T10:00:00Z"),
        (1_714_557_600_100, "2024-05-01T10:00:00.1Z"),
        (1_714_557_600_120, "2024-05-01T10:00:00.12Z"),
        (1_714_557_600_007, "2024-05-01T10:00:00.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00Z"),
    ],
)
def test_known_times_have_their_texts(time_ms: int, text: str) -> None:
    assert format_time(time_ms) == text


@given(IN_RANGE)
def test_format_agrees_with_datetime_and_comes_back(time_ms: int) -> None:
    text = format_time(time_ms)
    assert datetime.fromisoformat(text) == EPOCH + timedelta(milliseconds=time_ms)
    assert not text.endswith(("0Z", ".Z")) or "." not in text
    assert parse_time(text) == time_ms


@given(st.integers(-(2**64), 2**64))
def test_any_stamp_has_a_text(time_ms: int) -> None:
    assert format_time(time_ms).endswith("Z")


@given(
    st.datetimes(datetime(1970, 1, 3), datetime(9999, 12, 30)),  # noqa: DTZ001 - the strategy takes naive ones
    st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_parse_agrees_with_datetime(local: datetime, zone: timezone) -> None:
    moment = local.replace(tzinfo=zone)
    assert parse_time(moment.isoformat()) == (moment - EPOCH) // timedelta(milliseconds=1)


def test_lenient_forms_of_a_time_are_read() -> None:
    assert parse_time("2024-05-01T10:00Z") == parse_time("2024-05-01t12:00:00.000000000+02:00")
    assert parse_time("2024-05-01T10:00:00.0019Z") == 1_714_557_600_001


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2024-05-01", "2024-05-01T10:00:00", "2024-05-01 10:00:00Z", "2024-13-01T10:00:00Z",
        "2024-02-30T10:00:00Z", "2024-05-01T25:00:00Z", "2024-05-01T10:00:00.Z", "2024-05-01T10:00:00+0200",
        "2024-05-01T10:00:00+19:00", "2024-05-01T10:00:00+02:60", "1969-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z", "２024-05-01T10:00:00Z",
    ],
)  # fmt: skip
def test_a_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


@given(st.text())
def test_parse_garbage_raises_only_value_error(text: str) -> None:
    try:
        assert parse_time(text) >= 0
    except ValueError:
        return
