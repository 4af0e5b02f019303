"""Tag expressions and property filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.errors import InvalidPull
from vela.wire.pull.property_filter import MAX_FILTER_CHARACTERS, parse_property_filter
from vela.wire.pull.tags import parse_tags


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("*", None), ("", None), (" A ", {"A"}), ("A || B||C", {"A", "B", "C"}), ("A|B", {"A|B"})],
)
def test_a_tag_expression_is_read_as_its_set_of_tags(expression: str, tags: set[str] | None) -> None:
    assert parse_tags(expression) == tags


@pytest.mark.parametrize("expression", ["||", "A ||", "|| A", "A || || B"])
def test_an_empty_alternative_is_refused(expression: str) -> None:
    with pytest.raises(InvalidPull, match="tags"):
        parse_tags(expression)


PROPERTIES = {
    "a": "3",
    "b": "x",
    "c": "it's",
    "t": "true",
    "word": "north",
    "long": "1" * 300,
    "endless": "1" * 401,
    "id": "9007199254740993",  # a float would round it to …992
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("a = 3", True),
        ("a = 3.0", True),
        ("a <> 3", False),
        ("a > 2 AND a < 4", True),
        ("a >= 3 and a <= 3", True),
        ("b = 'x'", True),
        ("b <> 'y'", True),
        ("c = 'it''s'", True),
        ("a BETWEEN 1 AND 3", True),
        ("a NOT BETWEEN 1 AND 2", True),
        ("word IN ('south', 'north')", True),
        ("word NOT IN ('south', 'east')", True),
        ("a IN (1, 2)", False),
        ("missing IS NULL", True),
        ("a IS NOT NULL", True),
        ("a IS NULL", False),
        ("missing = 1", False),
        ("NOT missing = 1", False),  # the comparison is unknown, and "not unknown" is unknown too
        ("missing = 1 OR a = 3", True),
        ("missing = 1 AND a = 3", False),
        ("NOT (missing = 1 AND a = 4)", True),  # the part in parentheses is false, whatever `missing` is
        ("b > 1", False),  # x is not a number
        ("t = TRUE", True),
        ("t = false", False),
        ("t <> false", True),
        ("word = TRUE", False),
        ("long > 1", True),
        ("endless > 1", False),  # too long for a number
        ("id = 9007199254740993", True),
        ("id = 9007199254740992", False),
        ("id > 9007199254740992 AND id < 9007199254740994", True),
        ("TRUE", True),
        ("NOT FALSE", True),
        ("a = 1 OR b = 'x' AND c = 'no'", False),  # AND binds more tightly than OR
        ("(a = 3 OR b = 'x') AND c = 'no'", False),
        ("a = -3 OR a > -1.5", True),
    ],
)
def test_a_property_filter_decides_by_the_properties(text: str, matches: bool) -> None:
    assert parse_property_filter(text)(PROPERTIES) is matches


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a =",
        "= 3",
        "a = b",
        "a > 'x'",
        "a IN ()",
        "a BETWEEN 1 3",
        "(a = 3",
        "a = 3)",
        "a = 3 b = 4",
        "a = 'open",
        "a ; b",
        "a IS 3",
        "(" * 40 + "a = 3" + ")" * 40,
        "NOT " * 40 + "a = 3",
        "a = 3" + " " * MAX_FILTER_CHARACTERS,
    ],
)
def test_unreadable_filters_are_refused(text: str) -> None:
    with pytest.raises(InvalidPull, match="filter"):
        parse_property_filter(text)


@given(st.text(alphabet="ab'() =<>,.19ANDORTINULLBEW-", max_size=60))
def test_any_text_is_refused_or_makes_a_filter(text: str) -> None:
    try:
        found = parse_property_filter(text)
    except InvalidPull:
        return
    assert found(PROPERTIES) in (True, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "filter: it ends where an operator is expected"),
        ("a = 3)", r"'\)' is found where the filter should end"),
        ("= 1", "where the name of a property is expected"),
        ("a IN 1", r"where \( is expected"),
    ],
)
def test_an_unreadable_filter_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(InvalidPull, match=expected):
        parse_property_filter(text)
