"""vela.schema compared with Apache's `pulsar.schema`: the same definition, and each reads what the other wrote."""

from __future__ import annotations

import enum
import json
from types import ModuleType
from typing import Any

import pulsar.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vela.schema
from vela.errors import InvalidConfiguration
from vela.message import Message, ReceivedEntry
from vela.schema import (
    Array,
    AvroSchema,
    Boolean,
    Bytes,
    BytesSchema,
    CustomEnum,
    Double,
    Integer,
    JsonSchema,
    Long,
    Map,
    Null,
    Record,
    Schema,
    SchemaInfo,
    SchemaType,
    String,
    StringSchema,
)
from vela.wire.entry import Message as Body

THEIRS: ModuleType = pulsar.schema
OURS: ModuleType = vela.schema


class Color(enum.Enum):
    """The colours of an order."""

    RED = 1
    GREEN = 2


def order(library: ModuleType) -> Any:
    """Return a record class with every kind of field, made with this library."""

    class Address(library.Record):  # type: ignore[misc, name-defined]
        street = library.String()
        number = library.Integer(required=True, default=1, required_default=True)

    class Order(library.Record):  # type: ignore[misc, name-defined]
        _avro_namespace = "shop.orders"
        name = library.String()
        count = library.Integer(required=True)
        total = library.Long()
        ratio = library.Float()
        price = library.Double(default=1.5, required_default=True)
        paid = library.Boolean(required_default=True)
        raw = library.Bytes()
        color = Color
        other = library.CustomEnum(Color, required=True)
        tags = library.Array(library.String())
        counts = library.Map(library.Integer())
        address = Address
        billing = Address(required=True)
        lines = library.Array(Address())
        places = library.Map(Address())
        nested = library.Array(library.Array(library.Integer()))

    return Order, Address


def filled_order(library: ModuleType, **values: Any) -> Any:
    kind, address = order(library)
    made = kind(
        name="lamp",
        count=3,
        total=1 << 40,
        ratio=1.5,
        color=Color.RED,
        other="GREEN",
        raw=b"abc",
        tags=["a", "b"],
        counts={"x": 1},
        lines=[address(street="High Street", number=7)],
        places={"home": address(street="Low Street", number=8)},
        nested=[[1], [2, 3]],
    )
    made.address.street = "Broad Street"
    made.billing.street = "Narrow Street"
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("sort", [False, True])
def test_the_definition_is_apaches_to_the_byte(sort: bool) -> None:
    definitions = []
    for library in (THEIRS, OURS):
        kind, _ = order(library)
        kind._sorted_fields = sort
        for schema_class in (library.JsonSchema, library.AvroSchema):
            info = schema_class(kind).schema_info()
            definitions.append(info.schema() if library is THEIRS else info.definition.decode())
    assert len(set(definitions)) == 1
    assert json.loads(definitions[0])["namespace"] == "shop.orders"


@pytest.mark.parametrize("schema_name", ["JsonSchema", "AvroSchema"])
@pytest.mark.parametrize(("writer", "reader"), [(THEIRS, OURS), (OURS, THEIRS), (OURS, OURS)])
def test_each_client_reads_the_others_messages(
    schema_name: str, writer: ModuleType, reader: ModuleType
) -> None:
    written = getattr(writer, schema_name)(order(writer)[0])
    reading = getattr(reader, schema_name)(order(reader)[0])
    # Each call of order() makes a new class, and the schema accepts values of its own class only.
    value = written._record_cls(**_plain(filled_order(writer)))
    got = reading.decode(written.encode(value))
    assert _plain(got) == _plain(filled_order(reader))


def _plain(record: Any) -> dict[str, Any]:
    """Return the values of a record of either library."""
    found: dict[str, Any] = {}
    for name in type(record)._fields if isinstance(record, THEIRS.Record) else record.__record_fields__:
        value = getattr(record, name)
        if isinstance(value, list):
            value = [_plain(item) if hasattr(item, "street") else item for item in value]
        elif isinstance(value, dict):
            value = {key: _plain(item) if hasattr(item, "street") else item for key, item in value.items()}
        elif hasattr(value, "street"):
            value = _plain(value)
        found[name] = value
    return found


class Line(Record):
    """A record for tests of Vela's library alone."""

    text = String(required=True)
    amount = Integer(default=1)
    flags = Map(Boolean())
    color = CustomEnum(Color, default=Color.GREEN, required_default=True)


class Letter(Record):
    """A record with records inside, and names that are methods elsewhere."""

    type = String()
    default = String()
    required = Boolean()
    schema_info = Long()
    line = Line()  # an instance, because a type checker would take the bare class for a nested class
    lines = Array(Line())


def test_missing_fields_have_their_defaults() -> None:
    letter = Letter()
    left_out: list[object] = [letter.type, letter.required, letter.lines]
    assert left_out == [None, False, None]
    assert letter.line == Line(amount=1, color="GREEN")
    letter.line.amount = 2
    assert Letter().line.amount == 1, "each record has its own"


class Posted(Record):
    """A record whose inner record has a default."""

    line = Line(default=Line(text="x", amount=7))


@pytest.mark.parametrize(
    "posted",
    [Posted(), Posted(line=None), JsonSchema(Posted).decode(b"{}")],
    ids=["left out", "None", "JSON"],
)
def test_the_default_of_a_record_field_is_kept_and_not_shared(posted: Posted) -> None:
    assert posted.line == Line(text="x", amount=7)
    posted.line.amount = 8
    assert Posted().line.amount == 7


def test_the_default_of_a_record_field_is_checked_like_a_value() -> None:
    class Named(Record):
        line = Line(default={"text": "x"})

    assert Named().line == Named(line=None).line == Line(text="x")
    with pytest.raises(TypeError, match="default"):

        class Wrong(Record):
            line = Line(default=Letter())


def test_without_a_default_none_is_no_record() -> None:
    assert Letter(line=None).line is None
    assert JsonSchema(Letter).decode(b'{"line": null}').line is None


def test_names_that_mean_something_elsewhere_are_ordinary_fields() -> None:
    letter = Letter(type="a", default="b", required=True, schema_info=7, lines=[Line(text="x")])
    assert (letter.type, letter.default, letter.required) == ("a", "b", True)
    schemas: list[Schema[Letter]] = [JsonSchema(Letter)]
    letter.line.text = "t"
    schemas.append(AvroSchema(Letter))
    for schema in schemas:
        assert schema.decode(schema.encode(letter)) == letter


def test_a_default_list_is_not_shared_between_instances() -> None:
    class Tagged(Record):
        tags = Array(String(), default=["new"])

    first = Tagged()
    first.tags.append("seen")
    assert Tagged().tags == ["new"]


def test_fields_are_inherited() -> None:
    class Base(Record):
        number = Long()

    class Derived(Base):
        name = String()

    assert [field["name"] for field in Derived.schema()["fields"]] == ["number", "name"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", 5),
        ("text", None),
        ("amount", "5"),
        ("flags", {"a": 1}),
        ("flags", {1: True}),
        ("flags", [True]),
        ("color", "BLUE"),
        ("color", 9),
    ],
)
def test_values_of_another_type_are_refused(field: str, value: object) -> None:
    line = Line(text="x")
    with pytest.raises(TypeError, match=field):
        setattr(line, field, value)
    with pytest.raises(TypeError, match=field):
        Line(**{"text": "x", field: value})  # type: ignore[arg-type]


def test_wrong_definitions_and_values_are_refused() -> None:
    with pytest.raises(AttributeError, match="colour"):
        Line(text="x").colour = 1
    with pytest.raises(TypeError, match="Array\\(Integer\\(\\)\\)"):
        Array(Integer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not an enumeration"):
        CustomEnum(str)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="line"):
        Letter(line=Letter())
    with pytest.raises(TypeError, match="takes Line"):
        JsonSchema(Line).encode(Letter())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not an object"):
        JsonSchema(Line).decode(b"[1]")
    with pytest.raises(TypeError, match="takes bytes"):
        BytesSchema().encode("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes str"):
        StringSchema().encode(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfiguration, match="schema_definition"):
        AvroSchema(None)
    with pytest.raises(TypeError, match="nothing"):
        Null().validate_type("nothing", 1)


def test_enums_are_set_by_value_and_bytes_and_text_convert_to_each_other() -> None:
    class Names(enum.Enum):
        SMALL = "s"

    class Size(Record):
        name = CustomEnum(Names)
        raw = Bytes()
        text = String()

    size = Size(name="s", raw="grün", text="grün".encode())
    assert (size.name, size.raw, size.text) == (Names.SMALL, "grün".encode(), "grün")
    assert JsonSchema(Size).decode(JsonSchema(Size).encode(size)) == size


@pytest.mark.parametrize("schema", [JsonSchema, AvroSchema])
def test_an_enum_value_that_is_another_members_name_comes_back(schema: Any) -> None:
    class Swapped(enum.Enum):
        ON = "OFF"
        OFF = "ON"

    class Switch(Record):
        state = CustomEnum(Swapped)
        others = Array(CustomEnum(Swapped))
        by_name = Map(CustomEnum(Swapped))

    made = schema(Switch)
    switch = Switch(state=Swapped.ON, others=[Swapped.OFF], by_name={"a": Swapped.ON})
    assert made.decode(made.encode(switch)) == switch
    assert Switch(state="ON").state is Swapped.ON


def test_fields_that_a_newer_program_wrote_are_dropped_and_missing_ones_have_their_default() -> None:
    assert JsonSchema(Line).decode(b'{"text": "x", "later": 1}') == Line(text="x")


def test_avro_reads_with_the_definition_that_the_message_was_written_with() -> None:
    class Old(Record):
        text = String(required=True)

    class New(Record):
        amount = Double(default=2.5, required=True, required_default=True)
        text = String(required=True)

    old, new = AvroSchema(Old), AvroSchema(New)
    topic, version = "persistent://public/default/t", b"\0" * 8
    entry = ReceivedEntry(topic + "-partition-3", 1, 2, schema=new)
    body = Body(old.encode(Old(text="x")), {}, None, 0, 0, -1, 0, 0, "p", None, schema_version=version)
    new.add_version(topic, version, old.schema_info())
    assert Message(body, entry).value() == New(text="x", amount=2.5)
    assert new.written_with(topic + "-partition-4", version) == old.schema_info(), "versions are the topic's"
    new.add_version(topic, version, None)
    assert new.written_with(topic, version) == new.schema_info()


def test_a_version_that_fastavro_refuses_is_decoded_with_the_consumers_definition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Text(Record):
        text = String(required=True)

    schema, version = AvroSchema(Text), b"\0" * 8
    # Brokers do not check the symbols of an enum as fastavro does.
    symbols = {"type": "enum", "name": "Colour", "symbols": ["light-red"]}
    refused = {
        "type": "record",
        "name": "Text",
        "fields": [{"name": "text", "type": "string"}, {"name": "colour", "type": symbols}],
    }
    info = SchemaInfo(name="AVRO", schema_type=SchemaType.AVRO, definition=json.dumps(refused).encode())
    topic = "persistent://public/default/t"
    schema.add_version(topic, version, info)
    assert "fastavro refuses" in caplog.text
    body = Body(schema.encode(Text(text="x")), {}, None, 0, 0, -1, 0, 0, "p", None, schema_version=version)
    assert Message(body, ReceivedEntry(topic, 1, 2, schema=schema)).value() == Text(text="x")


def test_avro_without_a_class_takes_dictionaries() -> None:
    schema: AvroSchema[dict[str, Any]] = AvroSchema(None, Line.schema())
    value = {"text": "x", "amount": 1, "flags": None, "color": "RED"}
    assert schema.decode(schema.encode(value)) == value
    with pytest.raises(TypeError, match="dictionaries"):
        schema.encode([1])  # type: ignore[arg-type]


@given(
    text=st.text(),
    amount=st.integers(-(1 << 31), (1 << 31) - 1),
    flags=st.dictionaries(st.text(), st.booleans()),
)
def test_encoded_values_are_decoded_again(text: str, amount: int, flags: dict[str, bool]) -> None:
    line = Line(text=text, amount=amount, flags=flags, color=Color.RED)
    assert JsonSchema(Line).decode(JsonSchema(Line).encode(line)) == line
    assert AvroSchema(Line).decode(AvroSchema(Line).encode(line)) == line


def test_the_schema_is_sent_to_the_broker_as_apaches_client_sends_it() -> None:
    assert BytesSchema().schema_info().to_wire() is None
    info = JsonSchema(Line).schema_info()
    told = info.to_wire()
    assert told is not None
    assert (told.type, told.name) == (2, "JSON")
    assert SchemaInfo.from_wire(told) == info
    text = StringSchema().schema_info().to_wire()
    assert text is not None
    assert (text.type, text.data) == (1, b"null"), "what Apache's Python client says"
    with pytest.raises(ValueError, match="21"):
        SchemaInfo.from_wire(type(told)(name="", type=21, data=b"", properties={}))
    assert AvroSchema(Line).schema_info().schema_type is SchemaType.AVRO


def test_an_application_can_write_its_own_schema() -> None:
    class Upper(Schema[str]):
        def __init__(self) -> None:
            super().__init__(str, SchemaType.BYTES, None, "BYTES")

        def encode(self, obj: str) -> bytes:
            return obj.upper().encode()

        def decode(self, data: bytes) -> str:
            return data.decode().lower()

    entry = ReceivedEntry("t", 1, 2, schema=Upper())
    body = Body(Upper().encode("abc"), {}, None, 0, 0, -1, 0, 0, "p", None)
    assert (Message(body, entry).data(), Message(body, entry).value()) == (b"ABC", "abc")
    assert str(Upper()) == "Upper"
