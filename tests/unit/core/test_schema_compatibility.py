"""Which schema may follow which: Avro's resolution rules under Pulsar's strategies."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.errors import IncompatibleSchema
from broker.core.policies import SchemaCompatibility
from broker.core.schemas import avro_resolution
from broker.core.schemas.compatibility import check_definition, check_reader, check_successor
from broker.core.schemas.schema import (
    SchemaDefinition,
    SchemaType,
    StoredSchema,
    key_and_value,
    version_bytes,
    version_number,
)


def record(*fields: tuple[str, Any] | tuple[str, Any, Any], name: str = "R") -> dict[str, Any]:
    described = [
        {"name": each[0], "type": each[1], **({"default": each[2]} if len(each) == 3 else {})}
        for each in fields
    ]
    return {"type": "record", "name": name, "fields": described}


def why_not(reader: object, writer: object) -> str | None:
    return avro_resolution.why_unreadable(
        avro_resolution.parse(json.dumps(reader).encode()), avro_resolution.parse(json.dumps(writer).encode())
    )


def schema(definition: object, type_: SchemaType = SchemaType.JSON) -> SchemaDefinition:
    return SchemaDefinition(type=type_, data=json.dumps(definition).encode())


def stored(*definitions: object) -> list[StoredSchema]:
    return [StoredSchema(version=at, schema=schema(each)) for at, each in enumerate(definitions)]


def enum(name: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": ["A"]}


def fixed(name: str) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": 2}


A = ("a", "int")
TREE = record(("next", ["null", "R"], None), A)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (record(A), record(A, ("b", "string"))),
        (record(A, ("b", "string", "x")), record(A)),
        (record(("a", "double")), record(A)),
        (record(("a", "bytes")), record(("a", "string"))),
        (record(("a", ["null", "int"])), record(A)),
        (record(("a", ["null", "long"])), record(("a", ["int", "null"]))),
        (record(("a", {"type": "array", "items": "long"})), record(("a", {"type": "array", "items": "int"}))),
        (record(("a", {"type": "map", "values": "long"})), record(("a", {"type": "map", "values": "int"}))),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["A"]}),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        ),
        (record(("a", {"type": "int", "logicalType": "date"})), record(A)),
        (record(("a", {"type": {"type": "int"}})), record(A)),
        (record(A, name="x.R"), record(A, name="y.R")),
        (TREE, TREE),
        ({**record(A), "aliases": ["Old"]}, record(A, name="Old")),
        (record(A, name="S"), record(A)),
        ({**record(A), "type": "error"}, record(A)),
        (record(("f", record(A, name="I"))), record(("f", record(A, name="J")))),
        (record(("f", ["null", record(A, name="I")])), record(("f", ["null", record(A, name="J")]))),
        (record(("f", [record(("z", "int"), name="X"), record(A, name="I")])), record(("f", record(A, name="J")))),
        ({"type": "array", "items": record(A, name="I")}, {"type": "array", "items": record(A, name="J")}),
        (record(("next", ["null", "S"]), A, name="S"), TREE),
        (fixed("x.F"), fixed("y.F")),
        (record(("e", enum("x.E")), name="S"), record(("e", enum("y.E")))),
        (
            {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int", "aliases": ["a"]}]},
            record(A),
        ),
    ],
)  # fmt: skip
def test_a_readable_schema_is_accepted(reader: object, writer: object) -> None:
    assert why_not(reader, writer) is None


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (record(A, ("b", "string")), record(A), "the schema.b: the writer lacks it"),
        (record(("a", "string")), record(A), "the schema.a: int cannot be read as string"),
        (record(("a", "int")), record(("a", "long")), "long cannot be read as int"),
        (record(("a", "int")), record(("a", ["null", "int"])), "null cannot be read as int"),
        (record(("a", ["null", "string"])), record(A), "no type of the union"),
        (record(A, ("b", "int"), name="S"), record(A), "the schema.b: the writer lacks it"),
        (record(("f", ["null", record(("z", "int"), name="I")])), record(("f", record(A, name="J"))), "no type of"),
        ([record(("z", "int"), name="J"), record(A, name="I")], record(A, name="J"), "no type of"),
        (record(("next", ["null", "S"]), ("b", "int"), name="S"), TREE, "the schema.b"),
        (enum("E"), enum("F"), "enum F cannot be read as E"),
        (["null", enum("E")], enum("F"), "no type of"),
        (fixed("F"), fixed("G"), "fixed G cannot be read as F"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, r"schema\[\]"),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "B is not a symbol",
        ),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "size"),
        (record(("next", ["null", "R"], None), ("b", "int")), TREE, "the schema.b"),
    ],
)  # fmt: skip
def test_an_unreadable_schema_is_refused_with_the_reason(reader: object, writer: object, why: str) -> None:
    found = why_not(reader, writer)
    assert found is not None
    assert re.search(why, found), found


def test_schemas_with_very_many_types_are_refused_and_not_compared_for_minutes() -> None:
    def union(prefix: str, size: int) -> list[dict[str, Any]]:
        return [record(A, name=f"{prefix}{index}") for index in range(size)]

    assert why_not(union("A", 100), union("B", 100)) is None
    assert why_not(union("A", 300), union("B", 300)) == "the schemas have too many types to compare them"


def test_a_long_chain_of_records_is_refused_and_does_not_fail() -> None:
    def chain(size: int) -> list[dict[str, Any]]:
        return [record(("next", ["null", f"R{index + 1}"]), name=f"R{index}") for index in range(size)] + [
            record(A, name=f"R{size}")
        ]

    assert why_not(chain(20), chain(20)) is None
    assert (
        why_not(chain(2000), chain(2000)) == "the schemas refer from type to type too often to compare them"
    )


def test_long_names_of_fields_are_cut_in_the_reason() -> None:
    name = "x" * 5000
    assert why_not(record((name, "int")), record((name, "string"))) == (
        f"the schema.{'x' * 100}: string cannot be read as int"
    )


def test_aliases_and_symbols_count_as_comparisons() -> None:
    """A type with many aliases or symbols may be compared again for each field or for each type of a union."""
    too_large = "the schemas have too many types to compare them"
    writers = [record(A, name=f"B{index}") for index in range(10)]
    aliases = [f"C{index}" for index in range(10_000)]
    assert why_not([record(A) | {"aliases": aliases}], writers[:1]) is None
    assert why_not([record(A) | {"aliases": aliases}], writers) == too_large
    symbols = {"type": "enum", "name": "E", "symbols": [f"S{index}" for index in range(10_000)]}
    fields: list[tuple[str, Any]] = [("a", symbols), *((f"f{index}", "E") for index in range(300))]
    assert why_not(record(*fields[:100]), record(*fields[:100])) is None
    assert why_not(record(*fields), record(*fields)) == too_large


@pytest.mark.parametrize("aliases", [5, [{}], "a"])
def test_aliases_that_are_not_names_match_nothing(aliases: object) -> None:
    reader = record(("b", "int")) | {"aliases": aliases}
    reader["fields"][0]["aliases"] = aliases
    assert why_not(reader, record(A)) == "the schema.b: the writer lacks it, and it has no default"


def test_a_short_name_means_the_type_of_its_own_namespace() -> None:
    own = {"type": "enum", "name": "X", "symbols": ["A"]}
    other = record(("x", {"type": "enum", "name": "X", "symbols": ["B"]}), name="Q") | {"namespace": "b"}
    writer = record(("own", own), ("other", other), ("again", "X")) | {"namespace": "a"}
    reader = record(("own", own), ("again", "X")) | {"namespace": "a"}
    assert why_not(reader, writer) is None, "`again` is a.X and not b.X, which was defined last"


def test_a_record_that_failed_once_fails_again() -> None:
    inner_old, inner_new = record(A, name="I"), record(("a", "string"), name="I")
    reader = record(("x", [inner_new, "int"]), ("y", "I"))
    writer = record(("x", "int"), ("y", inner_old))
    assert why_not(reader, writer) is not None
    reader = record(("x", ["int", inner_new]), ("y", "I"))
    writer = record(("x", ["int", inner_old]), ("y", "I"))
    assert why_not(reader, writer) is not None


def test_what_was_compared_beside_a_record_that_failed_is_compared_again() -> None:
    reads = record(("b", record(("a", "A"), name="B")), ("added", "int"), name="A")
    written = record(("b", record(("a", "W"), name="V")), name="W")
    # `p` is read as the record without fields, so only `q` fails: inside it, A would have to read W.
    reader = record(("p", [reads, record(name="C")]), ("q", "B"))
    writer = record(("p", written), ("q", "V"))
    assert "added" in (why_not(reader, writer) or "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"5",
        b'{"type": "record", "fields": []}',
        b'{"type": "record", "name": "R"}',
        b'{"type": "record", "namespace": "n"}',
        b'{"type": "fixed", "namespace": "n", "size": 2}',
        b'{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}',
        b'{"type": "enum", "name": "E"}',
        b'{"type": "array"}',
        b"[" * 5000,
        b'{"type": "array", "items": ' * 200 + b'"int"' + b"}" * 200,
    ],
)
def test_a_text_that_is_not_a_definition_is_refused(data: bytes) -> None:
    with pytest.raises(IncompatibleSchema):
        check_definition(SchemaDefinition(type=SchemaType.AVRO, data=data))


V0 = record(A)
V1_OPTIONAL = record(A, ("b", "string", ""))  # V0 and this read each other
V2_REQUIRED = record(A, ("b", "string"))  # this reads V1, but not V0
S = SchemaCompatibility


@pytest.mark.parametrize(
    ("strategy", "history", "new", "allowed"),
    [
        (S.ALWAYS_COMPATIBLE, [V0], record(("z", "int")), True),
        (S.ALWAYS_INCOMPATIBLE, [V0], V1_OPTIONAL, False),
        (S.ALWAYS_INCOMPATIBLE, [], V0, True),
        (S.AUTO_UPDATE_DISABLED, [V0], V1_OPTIONAL, False),
        (S.BACKWARD, [V0], V1_OPTIONAL, True),
        (S.BACKWARD, [V0], V2_REQUIRED, False),
        (S.BACKWARD, [V0, V1_OPTIONAL], V2_REQUIRED, True),
        (S.BACKWARD_TRANSITIVE, [V0, V1_OPTIONAL], V2_REQUIRED, False),
        (S.FORWARD, [V0], V2_REQUIRED, True),
        (S.FORWARD, [V2_REQUIRED], V0, False),
        (S.FORWARD, [V2_REQUIRED, V1_OPTIONAL], V0, True),
        (S.FORWARD_TRANSITIVE, [V2_REQUIRED, V1_OPTIONAL], V0, False),
        (S.FULL, [V0], V1_OPTIONAL, True),
        (S.FULL, [V0], V2_REQUIRED, False),
        (S.FULL, [V2_REQUIRED], V0, False),
        (S.FULL_TRANSITIVE, [V2_REQUIRED, V1_OPTIONAL], V0, False),
        (S.UNDEFINED, [V0], V2_REQUIRED, False),
    ],
)
def test_each_strategy_allows_the_changes_that_it_promises(
    strategy: S, history: list[object], new: object, allowed: bool
) -> None:
    if allowed:
        check_successor(stored(*history), schema(new), strategy)
    else:
        with pytest.raises(IncompatibleSchema, match=strategy):
            check_successor(stored(*history), schema(new), strategy)


def test_schemas_of_different_types_are_incompatible() -> None:
    text = [StoredSchema(version=0, schema=SchemaDefinition(type=SchemaType.STRING, data=b""))]
    with pytest.raises(IncompatibleSchema, match="STRING cannot be read as INT32"):
        check_successor(text, SchemaDefinition(type=SchemaType.INT32, data=b""), S.BACKWARD)
    with pytest.raises(IncompatibleSchema, match="not a schema that can be stored"):
        check_successor([], SchemaDefinition(type=SchemaType.AUTO_CONSUME, data=b""), S.FULL)


def test_a_reader_must_read_the_latest_or_all() -> None:
    history = stored(V0, V1_OPTIONAL)
    check_reader(history, schema(V2_REQUIRED), S.FULL)
    check_reader(history, schema(record(("z", "int"))), S.ALWAYS_COMPATIBLE)
    with pytest.raises(IncompatibleSchema, match="version 0"):
        check_reader(history, schema(V2_REQUIRED), S.FULL_TRANSITIVE)
    with pytest.raises(IncompatibleSchema, match="no schema"):
        check_reader([], schema(V0), S.FULL)


def key_value(key_type: str, value: object) -> SchemaDefinition:
    parts = (b"", json.dumps(value).encode())
    data = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    named = {"key.schema.type": key_type, "value.schema.type": "JSON"}
    return SchemaDefinition(type=SchemaType.KEY_VALUE, data=data, properties=named)


def test_key_and_value_are_compared_each() -> None:
    old = [StoredSchema(version=0, schema=key_value("STRING", V0))]
    check_successor(old, key_value("STRING", V1_OPTIONAL), S.FULL)
    with pytest.raises(IncompatibleSchema, match=r"value: the schema\.b"):
        check_successor(old, key_value("STRING", V2_REQUIRED), S.BACKWARD)
    with pytest.raises(IncompatibleSchema, match="key: STRING"):
        check_successor(old, key_value("INT32", V0), S.BACKWARD)
    for data in (b"", b"\0\0\0\5ab", b"\0\0\0\0\0\0\0\1"):
        with pytest.raises(IncompatibleSchema):
            key_and_value(SchemaDefinition(type=SchemaType.KEY_VALUE, data=data))


def test_a_key_may_be_plain_bytes() -> None:
    check_definition(key_value("BYTES", V0))
    old = [StoredSchema(version=0, schema=key_value("BYTES", V0))]
    check_successor(old, key_value("BYTES", V1_OPTIONAL), S.FULL)
    with pytest.raises(IncompatibleSchema, match="NONE is not a schema"):
        check_definition(SchemaDefinition(type=SchemaType.NONE, data=b""))


def test_a_protobuf_descriptor_keeps_its_message() -> None:
    old, same, other = (
        SchemaDefinition(
            type=SchemaType.PROTOBUF_NATIVE,
            data=json.dumps({"rootMessageTypeName": name, "fileDescriptorSet": content}).encode(),
        )
        for name, content in (("a.B", "x"), ("a.B", "y"), ("a.C", "x"))
    )
    history = [StoredSchema(version=0, schema=old)]
    check_successor(history, same, S.FULL)
    with pytest.raises(IncompatibleSchema, match=r"a\.B cannot be read as a\.C"):
        check_successor(history, other, S.FULL)
    with pytest.raises(IncompatibleSchema, match="rootMessageTypeName"):
        check_definition(SchemaDefinition(type=SchemaType.PROTOBUF_NATIVE, data=b"[]"))


def test_a_schema_version_is_sent_as_eight_bytes() -> None:
    assert version_number(version_bytes(7)) == 7
    assert version_bytes(1) == b"\0\0\0\0\0\0\0\1"
    with pytest.raises(IncompatibleSchema, match="8 bytes"):
        version_number(b"")


primitives = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
types = st.recursive(
    primitives,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": "map", "values": each}),
        st.lists(primitives, min_size=1, max_size=3, unique=True),
    ),
    max_leaves=4,
)
records = st.lists(types, max_size=4).map(lambda each: record(*((f"f{at}", t) for at, t in enumerate(each))))


@given(records)
def test_every_definition_reads_itself(definition: dict[str, Any]) -> None:
    assert why_not(definition, definition) is None


@given(records, types)
def test_an_added_field_is_backward_only_with_a_default(definition: dict[str, Any], added: Any) -> None:
    bare = {**definition, "fields": [*definition["fields"], {"name": "new", "type": added}]}
    given_a_default = {
        **definition,
        "fields": [*definition["fields"], {"name": "new", "type": added, "default": None}],
    }
    assert why_not(definition, bare) is None
    assert why_not(bare, definition) is not None
    assert why_not(given_a_default, definition) is None


@given(records, st.data())
def test_a_removed_field_is_forward_only_if_readers_have_a_default(
    definition: dict[str, Any], data: st.DataObject
) -> None:
    fields = definition["fields"]
    if not fields:
        return
    gone = data.draw(st.integers(0, len(fields) - 1))
    rest = {**definition, "fields": [each for at, each in enumerate(fields) if at != gone]}
    assert why_not(rest, definition) is None
    assert why_not(definition, rest) is not None
