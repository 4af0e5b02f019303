"""Whether bytes are a value of a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.core.errors import IncompatibleSchema
from broker.core.schemas.payload import check_payload, is_readable
from broker.core.schemas.schema import SchemaDefinition, SchemaType

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": ["null", "string"]},
        {
            "name": "state",
            "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
            "default": "NEW",
        },
        {"name": "lines", "type": {"type": "array", "items": "double"}, "default": []},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "parent", "type": ["null", "Order"]},
    ],
}


def of_json(definition: object) -> SchemaDefinition:
    return SchemaDefinition(type=SchemaType.JSON, data=json.dumps(definition).encode())


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1},
        {"id": 1, "note": "x", "state": "PAID", "lines": [1, 2.5], "tags": {"a": "b"}, "more": True},
        {"id": 1, "parent": {"id": 2, "parent": None}},
    ],
)
def test_valid_values_of_a_record_are_accepted(value: object) -> None:
    check_payload(of_json(ORDER), json.dumps(value).encode())


def test_a_type_that_wraps_another_is_read_as_the_inner_one() -> None:
    state = {"type": {"type": {"type": "enum", "name": "State", "symbols": ["NEW"]}}}
    wrapped = of_json({"type": "record", "name": "R", "fields": [{"name": "state", "type": state}]})
    check_payload(wrapped, b'{"state": "NEW"}')
    with pytest.raises(IncompatibleSchema, match="state is a string"):
        check_payload(wrapped, b'{"state": "OLD"}')


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "the value is an array, and the schema takes an object"),
        ({}, "id is missing"),
        ({"id": True}, "id is a boolean, and the schema takes int"),
        ({"id": 2**31}, "id is a whole number of 33 bits, and the schema takes int"),
        ({"id": 1, "note": 5}, "note is a whole number, and the schema takes null or string"),
        ({"id": 1, "state": "LOST"}, "takes NEW or PAID"),
        ({"id": 1, "lines": [1, "a"]}, "lines[1] is a string"),
        ({"id": 1, "lines": {}}, "takes an array"),
        ({"id": 1, "tags": {"a": 1}}, "tags[*] is a whole number"),
        ({"id": 1, "parent": {"id": "x"}}, "parent is an object"),
    ],
)
def test_an_invalid_value_says_where_it_is(value: object, says: str) -> None:
    with pytest.raises(IncompatibleSchema) as error:
        check_payload(of_json(ORDER), json.dumps(value).encode())
    assert says in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        "secret",
        {"id": "secret"},
        {"id": 1, "note": ["secret"]},
        {"id": 1, "state": "secret"},
        {"id": 1, "lines": ["secret"]},
        {"id": 1, "tags": {"secret": 1}},
        {"id": 1, "parent": {"id": "secret"}},
    ],
)
def test_no_part_of_a_payload_is_shown(value: object) -> None:
    """The sentence stays in the act log, which users without the right to read messages may read."""
    with pytest.raises(IncompatibleSchema) as error:
        check_payload(of_json(ORDER), json.dumps(value).encode())
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_text_that_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(IncompatibleSchema, match="it is not JSON"):
        check_payload(of_json(ORDER), data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": "\xfe"}', "it is not JSON: it is not UTF-8 at byte 7"),
        ('{"a": 1}'.encode("utf-16")[:-1], "it is not JSON: it is not UTF-16-LE at byte 16"),
    ],
)
def test_bytes_that_are_not_text_are_refused_without_showing_them(data: bytes, says: str) -> None:
    with pytest.raises(IncompatibleSchema) as error:
        check_payload(of_json(ORDER), data)
    assert str(error.value) == says


def test_values_of_primitive_types_are_checked() -> None:
    text = SchemaDefinition(type=SchemaType.STRING, data=b"")
    check_payload(text, b"caf\xc3\xa9")
    with pytest.raises(IncompatibleSchema, match="not UTF-8 at byte 3"):
        check_payload(text, b"caf\xe9")
    number = SchemaDefinition(type=SchemaType.INT64, data=b"")
    check_payload(number, bytes(8))
    with pytest.raises(IncompatibleSchema, match="it has 4 bytes, but a value of the schema has 8"):
        check_payload(number, bytes(4))


def test_a_payload_that_the_broker_cannot_read_is_accepted() -> None:
    avro = SchemaDefinition(type=SchemaType.AVRO, data=json.dumps(ORDER).encode())
    check_payload(avro, b"anything")
    assert not is_readable(avro)
    assert is_readable(of_json(ORDER))


def test_a_schema_cannot_make_a_check_endless() -> None:
    """Each level of this value is compared with both records. Without a limit, this would take 2^40 comparisons."""
    inner = {"type": "record", "name": "B", "fields": [{"name": "next", "type": ["null", "A", "B"]}]}
    outer = {"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A", inner]}]}
    value: object = "wrong"
    for _ in range(40):
        value = {"next": value}
    check_payload(of_json(outer), json.dumps(value).encode())


@pytest.mark.parametrize(("before", "is_checked"), [(29_990, True), (30_010, False)])
def test_the_first_30_000_values_are_checked(before: int, is_checked: bool) -> None:
    data = json.dumps([1] * before + ["wrong"]).encode()
    if is_checked:
        with pytest.raises(IncompatibleSchema, match=r"\[29990\] is a string"):
            check_payload(of_json({"type": "array", "items": "int"}), data)
    else:
        check_payload(of_json({"type": "array", "items": "int"}), data)


def test_long_names_of_fields_are_cut() -> None:
    """Each value inside a field gets a copy of the field's name, and a schema may contain very long names."""
    fields = [{"name": "x" * 5000, "type": {"type": "array", "items": "int"}}]
    with pytest.raises(IncompatibleSchema, match=r"^x{100}\[1\] is a string"):
        check_payload(
            of_json({"type": "record", "name": "R", "fields": fields}),
            json.dumps({"x" * 5000: [1, "a"]}).encode(),
        )


def test_fields_left_out_and_symbols_count_as_comparisons() -> None:
    """Otherwise a list of small values could take a minute: each value is compared with each field or symbol."""
    fields = [{"name": f"f{index}", "type": "int", "default": 0} for index in range(1000)]
    symbols = [f"S{index}" for index in range(10_000)]
    records = {"type": "array", "items": {"type": "record", "name": "R", "fields": fields}}
    enums = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": symbols}}
    for definition, value, few, many in ((records, {}, 20, 40), (enums, "S1", 200, 400)):
        with pytest.raises(IncompatibleSchema, match=rf"\[{few}\]"):
            check_payload(of_json(definition), json.dumps([value] * few + [5]).encode())
        check_payload(of_json(definition), json.dumps([value] * many + [5]).encode())


@pytest.mark.parametrize(
    "definition", [None, 5, {}, [], {"type": "record"}, {"fields": 5}, "unknown", {"type": {}}]
)
def test_a_schema_that_says_nothing_takes_any_json(definition: object) -> None:
    for value in ({"a": 1}, [1], 5, None):
        if definition == {"type": "record"} and not isinstance(value, dict):
            continue
        if definition != []:  # a union of nothing
            check_payload(of_json(definition), json.dumps(value).encode())
