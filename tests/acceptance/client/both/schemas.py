"""Examples of schemas."""

from __future__ import annotations

import enum
from typing import Any

from tests.acceptance.client.both.place import Place, example, refusal
from tests.acceptance.client.both.publishing import received


class Color(enum.Enum):
    """The color of a lamp."""

    RED = 1
    GREEN = 2


def lamp_class(api: Any) -> Any:
    """Return a record class made with this client."""
    schema = api.schema

    class Lamp(schema.Record):  # type: ignore[misc, name-defined]
        name = schema.String(required=True)
        watts = schema.Integer(default=40)
        price = schema.Double()
        color = Color
        tags = schema.Array(schema.String())

    return Lamp


def lamp_text(lamp: Any) -> str:
    """Return the record's values as one text."""
    return f"{lamp.name} {lamp.watts} {lamp.price} {lamp.color} {lamp.tags}"


LAMP = "desk 60 9.5 Color.GREEN ['a', 'b']"


def _exchange(api: Any, place: Place, schema: Any, value: Any) -> Any:
    client = api.Client(place.url(api))
    topic = place.topic()
    consumer = client.subscribe(topic, "s", schema=schema)
    client.create_producer(topic, schema=schema).send(value)
    found = received(consumer, 1)[0].value()
    client.close()
    return found


def lamp(api: Any) -> Any:
    """Return a record of `lamp_class`."""
    return lamp_class(api)(name="desk", watts=60, price=9.5, color=Color.GREEN, tags=["a", "b"])


@example("grün")
def strings(api: Any, place: Place) -> Any:
    return _exchange(api, place, api.schema.StringSchema(), "grün")


@example(LAMP)
def json_records(api: Any, place: Place) -> Any:
    value = lamp(api)
    return lamp_text(_exchange(api, place, api.schema.JsonSchema(type(value)), value))


@example(LAMP)
def avro_records(api: Any, place: Place) -> Any:
    value = lamp(api)
    return lamp_text(_exchange(api, place, api.schema.AvroSchema(type(value)), value))


@example("IncompatibleSchema")
def a_schema_that_does_not_fit(api: Any, place: Place) -> Any:
    class Other(api.schema.Record):  # type: ignore[misc]
        name = api.schema.Integer(required=True)

    client = api.Client(place.url(api))
    topic = place.topic()
    client.create_producer(topic, schema=api.schema.AvroSchema(lamp_class(api)))
    found = refusal(lambda: client.create_producer(topic, schema=api.schema.AvroSchema(Other)))
    client.close()
    return found


@example(["old 5 -", "new 5 more"])
def avro_of_two_versions(api: Any, place: Place) -> Any:
    schema = api.schema

    class Lamp(schema.Record):  # type: ignore[misc, name-defined]
        name = schema.String(required=True)
        watts = schema.Integer(required=True)

    old_class: Any = Lamp

    class Lamp(schema.Record):  # type: ignore[misc, name-defined, no-redef]
        watts = schema.Integer(required=True)
        note = schema.String(required=True, default="-", required_default=True)
        name = schema.String(required=True)

    client = api.Client(place.url(api))
    topic = place.topic()
    client.create_producer(topic, schema=schema.AvroSchema(old_class)).send(old_class(name="old", watts=5))
    client.create_producer(topic, schema=schema.AvroSchema(Lamp)).send(Lamp(name="new", watts=5, note="more"))
    consumer = client.subscribe(
        topic, "s", schema=schema.AvroSchema(Lamp), initial_position=api.InitialPosition.Earliest
    )
    values = [message.value() for message in received(consumer, 2)]
    client.close()
    return [f"{value.name} {value.watts} {value.note}" for value in values]
