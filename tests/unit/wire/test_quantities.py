"""Lengths of time and sizes: what is written is read back, and errors say what to write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.errors import InvalidQuantity
from vela.wire.quantities import read_length_ms, read_size_bytes, write_length, write_size

NUMBERS = st.one_of(
    st.integers(0, 2**53 - 1),
    st.builds(
        lambda number, unit: number * unit,
        st.integers(0, 5000),
        st.sampled_from([1000, 60_000, 3_600_000, 86_400_000, 1024**2, 1024**3, 1000**3, 1000**4]),
    ),
)


@given(NUMBERS)
def test_a_written_length_is_read_back(length_ms: int) -> None:
    assert read_length_ms(write_length(length_ms)) == length_ms


@given(NUMBERS)
def test_a_written_size_is_read_back(size_bytes: int) -> None:
    assert read_size_bytes(write_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("length_ms", "written"),
    [
        (0, "0 seconds"),
        (1, "1 millisecond"),
        (1500, "1500 milliseconds"),
        (90_000, "1 minute 30 seconds"),
        (5_400_000, "1 hour 30 minutes"),
        (604_800_000, "7 days"),
        (90_000_000, "1 day 1 hour"),
        (86_401_000, "86401 seconds"),
    ],
)
def test_a_length_is_said_in_words(length_ms: int, written: str) -> None:
    assert write_length(length_ms) == written


@pytest.mark.parametrize(
    ("size_bytes", "written"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1_234_567, "1234567 bytes"),
        (20_000_000_000, "20 GB"),
        (1_073_741_824, "1 GiB"),
        (1536, "1536 bytes"),
        (1_500_000_000, "1500 MB"),
    ],
)
def test_a_size_is_said_in_words(size_bytes: int, written: str) -> None:
    assert write_size(size_bytes) == written


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("1h30m", 5_400_000), ("1.5 h", 5_400_000), ("15 min", 900_000), (" 7 days ", 604_800_000)],
)
def test_a_length_can_be_written_in_several_ways(text: str, length_ms: int) -> None:
    assert read_length_ms(text) == length_ms


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("10GB", 10**10), ("10 gb", 10**10), ("512MiB", 2**29), ("1.5kB", 1500), ("3 bytes", 3)],
)
def test_a_size_can_be_written_in_several_ways(text: str, size_bytes: int) -> None:
    assert read_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not a length of time: write 500ms"),
        ("5", "'5' is not a length"),
        ("-5m", "'-5m' is not a length"),
        ("5M", "'5M' is not a length"),
        ("1h2h", "'1h2h' is not a length"),
        ("1h and more", "is not a length"),
        ("٣m", "is not a length"),
        ("0.0001s", "'0.0001s' is not a whole number of milliseconds"),
        ("9" * 4000 + "d", "… is too long a number"),
    ],
)
def test_a_text_that_is_not_a_length_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidQuantity, match=says):
        read_length_ms(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10G", "'10G' is not a size: write 500kB, 512MiB, 10GB or 1TB"),
        ("10", "'10' is not a size"),
        ("1 hour", "'1 hour' is not a size"),
        ("0.5B", "'0.5B' is not a whole number of bytes"),
    ],
)
def test_a_text_that_is_not_a_size_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidQuantity, match=says):
        read_size_bytes(text)
