"""Paths into JSON documents and comparisons of the values there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.messages.values.json_path import JsonPathInvalid, JsonTest, Operator, parse_path

DOCUMENT: dict[str, Any] = {
    "order": {"id": 7, "total": 12.5, "paid": True, "note": None, "a.b": "dotted"},
    "items": [{"sku": "A-1", "tags": ["x", "y"]}, {"sku": "B-2", "tags": []}],
    "when": "2026-03-01T10:00:00",
    "code": "42",
}


@pytest.mark.parametrize(
    ("path", "operator", "text", "holds"),
    [
        ("order.id", "=", "7", True),
        ("$.order.id", "=", "7.0", True),
        ("order.id", "!=", "7", False),
        ("order.id", ">", "6", True),
        ("order.id", ">=", "7", True),
        ("order.id", "<", "7", False),
        ("order.id", "<=", "7", True),
        ("order.total", "=", "12.5", True),
        ("order.paid", "=", "true", True),
        ("order.paid", "=", "1", False),
        ("order.note", "=", "null", True),
        ("order.note", "exists", "", True),
        ("order.gone", "exists", "", False),
        ("order.gone", "!=", "7", False),
        ('order["a.b"]', "=", "dotted", True),
        ("items[0].sku", "=", "A-1", True),
        ("items[1].sku", "=", "A-1", False),
        ("items[9].sku", "exists", "", False),
        ("items[*].sku", "=", "B-2", True),
        ("items[*].sku", "contains", "-2", True),
        ("items[*].tags", "contains", "y", True),
        ("items[*].tags[*]", "=", "z", False),
        ("when", ">", "2026-02-28", True),
        ("when", "<", "2026-02-28", False),
        ("code", "=", "42", True),
        ("code", "=", '"42"', True),
        ("code", "contains", "4", True),
        ("order", ">", "1", False),
    ],
)
def test_a_condition_is_compared_with_the_value_at_its_path(
    path: str, operator: Operator, text: str, holds: bool
) -> None:
    assert JsonTest(path=parse_path(path), operator=operator, text=text).holds(DOCUMENT) is holds


@pytest.mark.parametrize(
    "path", ["", " ", "$", "a..b", "a.", ".", "a[", "a[x]", "a[-1]", 'a["b]', 'a["\\x"]', "a b", "a[1]b"]
)
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(JsonPathInvalid):
        parse_path(path)


def test_a_path_of_too_many_steps_is_refused() -> None:
    with pytest.raises(JsonPathInvalid, match="at most 50"):
        parse_path(".".join("a" * 51))


@given(st.lists(st.one_of(st.text(min_size=1), st.integers(0, 99)), min_size=1, max_size=8))
def test_every_name_can_be_written_in_a_path(steps: list[str | int]) -> None:
    text = "".join(f"[{step}]" if isinstance(step, int) else f"[{json.dumps(step)}]" for step in steps)
    assert parse_path(text) == tuple(steps)


@given(st.text(max_size=40), st.text(max_size=20))
def test_any_text_is_a_path_or_is_refused(path: str, text: str) -> None:
    try:
        steps = parse_path(path)
    except JsonPathInvalid:
        return
    operators: tuple[Operator, ...] = ("=", "!=", "<", ">", "<=", ">=", "contains", "exists")
    for operator in operators:
        JsonTest(path=steps, operator=operator, text=text).holds(DOCUMENT)


def test_a_number_of_any_length_can_be_compared() -> None:
    assert JsonTest(path=("n",), operator="=", text="1" + "0" * 30).holds({"n": 10**30})
    assert not JsonTest(path=("n",), operator="=", text="9" * 5000).holds({"n": 1})
    assert not JsonTest(path=("n",), operator="<", text="[" * 5000).holds({"n": 1})
