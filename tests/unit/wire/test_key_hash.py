"""Hashes of keys against published values."""

from __future__ import annotations

import pytest

from vela.wire.key_hash import java_string_hash, murmur3_32, murmur3_string_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 0x3C2569B2),
        ("test", 0xBA6BD213),
        ("hello", 0x248BFA47),
        ("hello, world", 0x149BBB7F),
        ("Hello, world!", 0xC0363E43),
        ("The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur_gives_its_published_values_and_strings_lose_the_sign(text: str, value: int) -> None:
    assert murmur3_32(text.encode()) == value
    assert murmur3_string_hash(text) == value & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", 0)]
)
def test_javas_hash_gives_its_published_values(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_javas_hash_counts_a_character_outside_the_basic_plane_as_two() -> None:
    assert java_string_hash("\U0001f600") == (31 * 0xD83D + 0xDE00) & 0x7FFFFFFF
