"""A topic's schema as columns."""

from __future__ import annotations

import json

import pytest

from pipeline.errors import SchemaUnusable
from pipeline.schemas import TopicSchema
from vela.schema import Array, Boolean, Double, Integer, JsonSchema, Long, Map, Record, String


def schema(definition: object) -> TopicSchema:
    return TopicSchema(topic="t", version=3, kind="json", definition=json.dumps(definition))


class Address(Record):
    street = String()


class Order(Record):
    article = String()
    pieces = Integer()
    number = Long()
    price = Double()
    paid = Boolean()
    tags = Array(String())
    counts = Map(Integer())
    home = Address()


def test_a_record_of_the_client_is_a_row() -> None:
    definition = JsonSchema(Order).schema_info().definition.decode()
    found = TopicSchema(topic="t", version=0, kind="json", definition=definition).spark_type()
    assert {field.name: field.dataType.simpleString() for field in found.fields} == {
        "article": "string",
        "pieces": "int",
        "number": "bigint",
        "price": "double",
        "paid": "boolean",
        "tags": "array<string>",
        "counts": "map<string,int>",
        "home": "struct<street:string>",
    }


def test_other_avro_types_become_columns() -> None:
    color = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    fields = [
        {"name": "a", "type": ["null", color]},
        {"name": "b", "type": "Color"},
        {"name": "c", "type": ["null", "int", "string"]},
        {"name": "d", "type": {"type": "fixed", "name": "F", "size": 4}},
        {"name": "e", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    found = schema({"type": "record", "name": "R", "fields": fields}).spark_type()
    assert [field.dataType.simpleString() for field in found.fields] == [
        "string",
        "string",
        "string",
        "binary",
        "bigint",
    ]


def test_a_type_that_is_used_twice_may_be_named_with_its_namespace() -> None:
    class Place(Record):
        _avro_namespace = "shop.geo"
        street = String()

    class Delivery(Record):
        _avro_namespace = "shop"
        sender = Place()
        receiver = Place()

    definition = JsonSchema(Delivery).schema_info().definition.decode()
    found = TopicSchema(topic="t", version=0, kind="json", definition=definition).spark_type()
    assert found.simpleString() == "struct<sender:struct<street:string>,receiver:struct<street:string>>"


def test_types_of_two_namespaces_may_have_one_short_name() -> None:
    def record(name: str, **fields: object) -> dict[str, object]:
        named = [{"name": field, "type": type_} for field, type_ in fields.items()]
        return {"type": "record", "name": name, "fields": named}

    inner = record("b.Part", x="int")
    outer = record("a.Whole", p=record("Part", y="string"), q=inner, r="Part", s="b.Part", t="a.Part")
    kinds = [field.dataType.simpleString() for field in schema(outer).spark_type().fields]
    assert kinds == [
        "struct<y:string>",
        "struct<x:int>",
        "struct<y:string>",
        "struct<x:int>",
        "struct<y:string>",
    ]


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("string", "the schema of t is not a record"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
            "ValueError: R contains itself",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "Unknown"}]}, "Unknown"),
        ({}, "version 3 of the schema of t cannot be a Spark type"),
    ],
)
def test_a_schema_that_cannot_be_columns_is_refused(definition: object, said: str) -> None:
    with pytest.raises(SchemaUnusable, match=said):
        schema(definition).spark_type()
