"""Two bodies side by side: every line is shown or folded, and lines that differ are marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.messages.comparison import Comparison, compare_bodies, compare_lines
from console.messages.decoders.report import decode

LINES = st.lists(st.sampled_from("abc"), max_size=60)


def bodies(left: bytes, right: bytes) -> Comparison:
    one, other = (decode(data, schema=None, is_whole=True, most_bytes=1_000_000) for data in (left, right))
    return compare_bodies(one, other)


def signs(found: Comparison) -> list[tuple[str, str | None, str | None]]:
    return [(line.kind, line.left, line.right) for line in found.lines if line.kind != "equal"]


def test_json_is_compared_by_members_and_not_by_its_spelling() -> None:
    assert bodies(b'{"a": 1, "b": [2]}', b'{"b":[2],"a":1}').is_equal
    found = bodies(b'{"a": 1, "b": 2, "c": 3}', b'{"a": 1, "b": 5, "d": 3}')
    assert (found.form, found.is_equal, found.is_cut) == ("JSON", False, False)
    assert signs(found) == [("changed", '  "b": 2', '  "b": 5'), ("changed", '  "c": 3', '  "d": 3')]
    assert signs(bodies(b'{"a": 1}', b'{"a": 1, "b": ","}')) == [("right", None, '  "b": ","')]


def test_texts_are_compared_by_line_and_bytes_by_a_dump() -> None:
    assert signs(bodies(b"one\ntwo\nthree", b"one\nthree")) == [("left", "two", None)]
    assert signs(bodies(b"one", b"one\n")) == [("right", None, "")]
    found = bodies(b"\xff\x00", b"text")
    assert found.form == "hex"
    assert found.lines[0].left is not None
    assert found.lines[0].left.startswith("00000000  ff 00")
    assert bodies(b"", b"").is_equal


def test_a_value_beside_a_text_is_compared_as_text() -> None:
    assert bodies(b'{"a": 1}', b"{not JSON").form == "text"


def test_keys_that_cannot_be_sorted_do_no_harm() -> None:
    assert bodies(b"\x82\x01\x02\xa1a\x03", b"\x82\x01\x02\xa1a\x04").form == "hex"  # {1: 2, "a": 3}


def test_equal_lines_far_from_a_difference_are_folded() -> None:
    left = [str(number) for number in range(100)]
    right = [*left[:50], "x", *left[51:]]
    found = compare_lines("text", left, right)
    assert [(line.kind, line.folded) for line in found.lines if line.folded] == [
        ("folded", 47),
        ("folded", 46),
    ]
    assert len(found.lines) == 2 + 3 + 1 + 3


def test_very_long_texts_are_compared_at_their_beginning() -> None:
    found = compare_lines("text", ["a"] * 50_000, [f"b{number}" for number in range(50_000)])
    assert (found.is_cut, len(found.lines)) == (True, 1000)


@given(left=LINES, right=LINES)
def test_every_line_is_shown_or_counted_as_folded(left: list[str], right: list[str]) -> None:
    found = compare_lines("text", left, right)
    assert found.is_equal is (left == right)
    if found.is_equal:
        return
    folded = sum(line.folded for line in found.lines)
    assert len([line for line in found.lines if line.left is not None]) + folded == len(left)
    assert len([line for line in found.lines if line.right is not None]) + folded == len(right)
    for line in found.lines:
        assert (line.kind == "equal") is (not line.folded and line.left == line.right)
