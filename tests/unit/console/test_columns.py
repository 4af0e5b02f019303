"""Columns that a reader chooses: how they are written, and which part of a message each one shows."""

from __future__ import annotations

import json

import pytest

from console.messages.values.columns import (
    MOST_COLUMNS,
    ColumnInvalid,
    cells_of,
    parse_columns,
    paths_in,
    values_of,
)
from vela.wire.entry import Message, decode_messages, encode_single

DOCUMENT = {"order": {"id": 7, "note": None}, "items": [{"sku": "a"}, {"sku": "b"}]}


def message(payload: object = DOCUMENT) -> Message:
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    entry = encode_single(
        producer_name="p",
        sequence_id=1,
        publish_time_ms=1,
        payload=data,
        key="k",
        properties={"region": "eu"},
    )
    (found,) = decode_messages(entry, max_message_bytes=1_000_000)
    return found


def test_each_kind_of_column_shows_its_value() -> None:
    columns = parse_columns(
        [
            "key",
            " $.order.id ",
            "property:region",
            "",
            "property:none",
            "$.items[*].sku",
            "$.order.note",
            "$.no",
        ]
    )
    assert cells_of(columns, message()) == ("k", "7", "eu", None, '["a", "b"]', "null", None)
    assert values_of(columns, message()) == {
        "key": "k",
        "$.order.id": 7,
        "property:region": "eu",
        "$.items[*].sku": ["a", "b"],
        "$.order.note": None,
    }


@pytest.mark.parametrize("payload", [b"\xff\x00", b"{", b"[" * 100_000, b""])
def test_a_payload_that_is_not_json_has_no_values(payload: bytes) -> None:
    assert cells_of(parse_columns(["$.a", "key"]), message(payload)) == (None, "k")


def test_a_payload_that_cannot_be_read_is_not_looked_into() -> None:
    assert cells_of(parse_columns(["$.order.id", "key"]), message(), has_payload=False) == (None, "k")


def test_a_long_cell_is_cut() -> None:
    (cell,) = cells_of(parse_columns(["$.a"]), message({"a": "x" * 5000}))
    assert cell == "x" * 200 + "…"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["order.id"], "Write $.order.id"),
        (["property:"], "Write $.order.id"),
        (["$"], "write a path"),
        (["$.a b"], "write a path"),
        ([f"$.a{number}" for number in range(MOST_COLUMNS + 1)], "at most 8 columns"),
    ],
)
def test_a_text_that_is_not_a_column_is_refused(names: list[str], says: str) -> None:
    with pytest.raises(ColumnInvalid, match=says.replace("$", r"\$")):
        parse_columns(names)


def test_a_repeated_column_counts_once() -> None:
    assert len(parse_columns(["$.a"] * 20)) == 1


def test_paths_in_a_payload_are_offered_as_columns() -> None:
    deep = {"a": {"b": {"c": {"d": 1}}}, "odd name": 1, "list": [1]}
    assert paths_in(json.dumps(deep).encode()) == ("$.a.b.c", "$.list")
    assert paths_in(b"[1]") == paths_in(b"\xff") == ()
    assert len(paths_in(json.dumps({f"m{number}": 1 for number in range(99)}).encode())) == 30
