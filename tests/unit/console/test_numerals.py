"""How pages write numbers and times: an unknown number is never 0, and units change where readers expect it."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from console.messages.peek import preview_of
from console.words import numerals

GAP = "\u202f"


def test_unknown_is_a_dash() -> None:
    assert {numerals.count(None), numerals.size(None), numerals.rate(None)} == {"–"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0.0 s"),
        (0.4, "0.4 s"),
        (40, "40 s"),
        (360, "6 min"),
        (5990, "100 min"),
        (7800, "2 h 10 min"),
        (86_400 * 3, "3 d"),
    ],
)
def test_a_span_of_time_is_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    expected = text if text != "100 min" else "1 h 40 min"
    assert numerals.span(seconds).replace(GAP, " ") == expected


def test_numbers_are_grouped() -> None:
    assert numerals.count(12408) == f"12{GAP}408"
    assert numerals.size(999) == f"999{GAP}B"
    assert numerals.size(999_600) == f"1.0{GAP}MB"
    assert numerals.rate(0.01) == "0/s"
    assert numerals.rate(31.44) == "31.4/s"
    assert numerals.rate(1234.4) == f"1{GAP}234/s"


def test_clock_shows_the_date_of_another_day() -> None:
    day_ms = 24 * 3_600_000
    assert numerals.clock(5, 7) == "00:00:00.005"
    assert numerals.clock(5, day_ms) == "1970-01-01 00:00:00.005"


def test_ago_speaks_of_the_past_and_of_the_future() -> None:
    assert numerals.ago(1000, 1100) == "just now"
    assert numerals.ago(1000, 41_000) == f"40{GAP}s ago"
    assert numerals.ago(41_000, 1000) == f"in 40{GAP}s"


@pytest.mark.parametrize(
    ("payload", "preview"),
    [
        (b"", ("", True)),
        (b'{"a": 1}', ('{"a": 1}', True)),
        ("é".encode() * 500, ("é" * 200, True)),
        (b"a" + "é".encode() * 500, ("a" + "é" * 199, True)),
        (b"\x00\x01", ("00 01", False)),
        (b"\xff\xfe", ("ff fe", False)),
    ],
)
def test_preview_is_short_text_or_hexadecimal(payload: bytes, preview: tuple[str, bool]) -> None:
    assert preview_of(payload) == preview


@pytest.mark.parametrize("far_ms", [2**63 - 1, 253_402_300_800_000, -(2**63)])
def test_a_number_that_no_clock_shows_is_written_as_it_is(far_ms: int) -> None:
    assert numerals.clock(far_ms, 7) == f"{far_ms} (not a time)"
    assert numerals.clock(7, 7) == "00:00:00.007"


AUTUMN_MS = 1_792_888_200_000  # 2026-10-25 00:30 UTC is 02:30 in Berlin; an hour later, it is 02:30 again


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati"])
@pytest.mark.parametrize(
    "time_ms", [AUTUMN_MS, AUTUMN_MS + 3_600_000, 1_774_747_800_001, 5, -62_135_510_399_000]
)
def test_a_written_time_is_read_as_the_same_in_every_zone(time_ms: int, zone: str) -> None:
    with timezone.override(ZoneInfo(zone)):
        assert numerals.read_time_ms(numerals.time_text(time_ms)) == time_ms


@pytest.mark.parametrize("text", ["2026-10-25 02:30", "2026-03-29 02:30"])
def test_a_time_that_the_clock_shows_twice_or_never_takes_an_offset(text: str) -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        with pytest.raises(ValueError, match="The clocks of Europe/Berlin change"):
            numerals.read_time_ms(text)
        assert numerals.read_time_ms(f"{text}+01:00") == numerals.read_time_ms(
            text.replace("02:30", "01:30"), ZoneInfo("UTC")
        )


@pytest.mark.parametrize("far_ms", [-62_135_510_400_001, 253_402_214_399_001])
def test_a_time_that_some_zone_cannot_show_is_refused(far_ms: int) -> None:
    assert not numerals.is_time(far_ms)


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59.9999999Z"],
)
def test_a_time_that_some_zone_cannot_show_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="Write the time as"):
        numerals.read_time_ms(text)
