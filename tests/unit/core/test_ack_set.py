"""Ack sets and their words on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.cursor import ack_set


@given(st.integers(0, 2**300 - 1))
def test_words_round_trip(bits: int) -> None:
    words = ack_set.to_words(bits)
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert ack_set.from_words(words) == bits
    assert ack_set.from_words([*words, 0]) == bits


@pytest.mark.parametrize(
    ("bits", "words"), [(0, []), (0b110, [6]), (2**64 - 1, [-1]), (1 << 63, [-(2**63)]), (1 << 64, [0, 1])]
)
def test_words(bits: int, words: list[int]) -> None:
    assert ack_set.to_words(bits) == words


def test_members() -> None:
    assert ack_set.full(3) == 0b111
    assert ack_set.without(3, 1) == 0b101
    assert ack_set.count(ack_set.without(70, 5)) == 69
