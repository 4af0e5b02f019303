"""Ack sets: words and bitsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire import ack_set


@given(st.integers(0, 2**300))
def test_words_of_an_ack_set_are_read_back(value: int) -> None:
    words = ack_set.to_words(value)
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert ack_set.from_words(words) == value


def test_an_ack_set_of_any_length_is_read_back() -> None:
    """A client's ACK may have millions of words. Code that shifts large numbers would take minutes for these."""
    words = [0] * 200_000 + [1]
    value = ack_set.from_words(words)
    assert value == 1 << (64 * 200_000)
    assert ack_set.to_words(value) == words


def test_every_member_of_an_unacked_entry_counts() -> None:
    assert ack_set.full(3) == 0b111
    assert ack_set.full(70).bit_count() == 70


@pytest.mark.parametrize(
    ("value", "words"), [(0, [0]), (0b110, [6]), (2**64 - 1, [-1]), (1 << 63, [-(2**63)]), (1 << 64, [0, 1])]
)
def test_a_bitset_becomes_signed_words(value: int, words: list[int]) -> None:
    assert ack_set.to_words(value) == words


@pytest.mark.parametrize(
    ("words", "value"),
    [([], None), ([0], 0), ([1], 1), ([-1], 2**64 - 1), ([0, 1], 2**64), ([5, 0, 0], 5)],
)
def test_an_empty_field_is_the_whole_entry_and_zero_is_all_acked(words: list[int], value: int | None) -> None:
    assert ack_set.from_words(words) == value
