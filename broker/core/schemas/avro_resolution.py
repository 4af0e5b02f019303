"""Decide by Avro's rules of schema resolution whether a reader's schema can read a writer's data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from broker.core.errors import IncompatibleSchema

__all__ = ["AvroType", "Definition", "parse", "why_unreadable"]

AvroType = str | Mapping[str, Any] | list[Any]

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTIONS: Final = {  # The keys are the writer's types
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_COMPLEX: Final = _NAMED | {"array", "map"}
_MOST_NESTED: Final = 100
_MOST_COMPARISONS: Final = 50_000  # This many comparisons take about 0.3 s
_MOST_NAME: Final = 100
_SYMBOLS_OF_A_COMPARISON: Final = 100  # This many enum symbols count as one comparison
_TOO_LARGE: Final = "the schemas have too many types to compare them"


class Definition:
    """A parsed schema definition."""

    __slots__ = ("named", "root")

    def __init__(self, root: AvroType) -> None:
        self.named: dict[str, Mapping[str, Any]] = {}
        self.root = root

    def resolve(self, schema: AvroType) -> AvroType:
        """Replace the name of a defined type by the type. Return any other schema unchanged."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            return self.named[schema]
        return schema


def parse(data: bytes) -> Definition:
    """Parse a definition. Raises IncompatibleSchema if the definition is not valid."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        raise IncompatibleSchema("the schema is not JSON; send an Avro definition") from None
    definition = Definition(root)
    definition.root = _collect(definition, root, "", 0)
    _require_known(definition, definition.root)
    return definition


def why_unreadable(reader: Definition, writer: Definition) -> str | None:
    """Return the reason why `reader` cannot read the writer's data, or None if the data is readable."""
    try:
        return _mismatch(_Pair(reader, writer), reader.root, writer.root, "the schema")
    except RecursionError:  # Records that refer to each other may form a long chain
        return "the schemas refer from type to type too often to compare them"


def _kind(schema: AvroType) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return "union"
    kind = str(schema["type"])
    return "record" if kind == "error" else kind


def _inner(schema: AvroType) -> AvroType:
    while isinstance(schema, Mapping):
        kind = schema.get("type")
        if not isinstance(kind, Mapping | list) and (kind in _PRIMITIVES or kind in _COMPLEX):
            break
        schema = kind if isinstance(kind, Mapping | list) else str(kind)
    return schema


def _full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return a type's full name, and the namespace that applies inside the type."""
    name = str(schema["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    inside = str(schema.get("namespace") or namespace)
    return (f"{inside}.{name}" if inside else name), inside


def _collect(definition: Definition, schema: AvroType, namespace: str, depth: int) -> AvroType:
    """Return the schema with full names, and register its types. May change the schema in place."""
    if depth > _MOST_NESTED:
        raise IncompatibleSchema(f"the schema is nested deeper than {_MOST_NESTED}")
    if isinstance(schema, str):
        full = f"{namespace}.{schema}"
        return full if full in definition.named and schema not in _PRIMITIVES else schema
    if isinstance(schema, list):
        return [_collect(definition, branch, namespace, depth + 1) for branch in schema]
    if not isinstance(schema, dict) or "type" not in schema:
        raise IncompatibleSchema(f"{json.dumps(schema)[:80]} is not an Avro type")
    kind = schema["type"]
    if isinstance(kind, dict | list) or (isinstance(kind, str) and kind not in _PRIMITIVES | _COMPLEX):
        schema["type"] = _collect(definition, kind, namespace, depth + 1)
        return schema
    if kind in _NAMED:
        if not schema.get("name"):
            raise IncompatibleSchema(f"a {kind} of the schema has no name")
        full, namespace = _full_name(schema, namespace)
        definition.named[full] = definition.named[full.rpartition(".")[2]] = schema
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise IncompatibleSchema(f"record {schema['name']} of the schema has no fields")
        for one in fields:
            if not isinstance(one, dict) or "type" not in one or not isinstance(one.get("name"), str):
                raise IncompatibleSchema(f"a field of record {schema['name']} has no name or type")
            one["type"] = _collect(definition, one["type"], namespace, depth + 1)
    elif kind == "enum":
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise IncompatibleSchema(f"enum {schema['name']} of the schema has no symbols")
    elif kind == "array":
        schema["items"] = _collect(definition, schema.get("items", {}), namespace, depth + 1)
    elif kind == "map":
        schema["values"] = _collect(definition, schema.get("values", {}), namespace, depth + 1)
    return schema


def _require_known(definition: Definition, schema: AvroType) -> None:
    schema = _inner(schema)
    if isinstance(schema, str):
        if schema not in _PRIMITIVES and schema not in definition.named:
            raise IncompatibleSchema(f"{schema} is not an Avro type, and the schema does not define it")
        return
    parts: list[AvroType]
    if isinstance(schema, list):
        parts = schema
    else:
        kind = _kind(schema)
        if kind == "record":
            parts = [one["type"] for one in schema["fields"]]
        elif kind in ("array", "map"):
            parts = [schema["items" if kind == "array" else "values"]]
        elif kind in ("enum", "fixed"):
            parts = []
        else:
            parts = [kind]
    for part in parts:
        _require_known(definition, part)


class _Pair:
    """A reader's and a writer's schema, and the state of their comparison."""

    __slots__ = ("compared", "left", "reader", "writer")

    def __init__(self, reader: Definition, writer: Definition) -> None:
        self.reader = reader
        self.writer = writer
        self.compared: dict[tuple[int, int], str | None] = {}
        self.left = _MOST_COMPARISONS


def _mismatch(pair: _Pair, reader: AvroType, writer: AvroType, where: str) -> str | None:
    pair.left -= 1
    if pair.left < 0:
        return _TOO_LARGE
    reader, writer = _inner(pair.reader.resolve(_inner(reader))), _inner(pair.writer.resolve(_inner(writer)))
    if isinstance(writer, list):
        for branch in writer:
            if (why := _mismatch(pair, reader, branch, where)) is not None:
                return why
        return None
    if isinstance(reader, list):
        if any(
            _mismatch(pair, branch, writer, where) is None for branch in _candidates(pair, reader, writer)
        ):
            return None
        return _TOO_LARGE if pair.left < 0 else f"{where}: no type of the union can read {_kind(writer)}"
    read, written = _kind(reader), _kind(writer)
    if read != written:
        if read in _PROMOTIONS.get(written, ()):
            return None
        return f"{where}: {written} cannot be read as {read}"
    if isinstance(reader, str) or isinstance(writer, str) or read in _PRIMITIVES:
        return None
    if read == "array":
        return _mismatch(pair, reader["items"], writer["items"], f"{where}[]")
    if read == "map":
        return _mismatch(pair, reader["values"], writer["values"], f"{where}{{}}")
    if read == "record":
        return _record_mismatch(pair, reader, writer, where)
    if not _same_name(pair, reader, writer):
        return f"{where}: {written} {writer['name']} cannot be read as {reader['name']}"
    if read == "fixed":
        same = reader.get("size") == writer.get("size")
        return None if same else f"{where}: the size of {reader['name']} differs"
    pair.left -= (len(reader["symbols"]) + len(writer["symbols"])) // _SYMBOLS_OF_A_COMPARISON
    return _enum_mismatch(reader, writer, where)


def _candidates(pair: _Pair, union: list[Any], writer: AvroType) -> list[AvroType]:
    """Return the branches of a union that may read `writer`.

    As in Avro's Java library, records with the writer's name rule out all other branches.
    """
    pair.left -= len(union)
    branches = [_inner(pair.reader.resolve(_inner(branch))) for branch in union]
    if not isinstance(writer, Mapping) or _kind(writer) != "record":
        return branches
    named = [
        each
        for each in branches
        if isinstance(each, Mapping) and _kind(each) == "record" and _same_name(pair, each, writer)
    ]
    return [*named] or branches


def _same_name(pair: _Pair, reader: Mapping[str, Any], writer: Mapping[str, Any]) -> bool:
    written = str(writer["name"]).rpartition(".")[2]
    return any(name.rpartition(".")[2] == written for name in _names_of(pair, reader))


def _names_of(pair: _Pair, named: Mapping[str, Any]) -> list[str]:
    aliases = named.get("aliases")
    if not isinstance(aliases, list):
        return [str(named["name"])]
    pair.left -= len(aliases)
    return [str(named["name"]), *map(str, aliases)]


def _enum_mismatch(reader: Mapping[str, Any], writer: Mapping[str, Any], where: str) -> str | None:
    known = set(reader["symbols"])
    missing = next((symbol for symbol in writer["symbols"] if symbol not in known), None)
    if missing is not None and "default" not in reader:
        return f"{where}: {missing} is not a symbol of enum {reader['name']}"
    return None


def _record_mismatch(
    pair: _Pair, reader: Mapping[str, Any], writer: Mapping[str, Any], where: str
) -> str | None:
    key, compared = (id(reader), id(writer)), pair.compared
    if key not in compared:
        before = len(compared)
        compared[key] = None  # Assume that the records are compatible, because a record may contain itself
        why = _field_mismatch(pair, reader, writer, where)
        if why is not None:
            # Forget the pairs that were found compatible under the wrong assumption.
            since = [compared.popitem() for _ in range(len(compared) - before)]
            compared.update(each for each in since if each[1] is not None)
        compared[key] = why
    return compared[key]


def _field_mismatch(
    pair: _Pair, reader: Mapping[str, Any], writer: Mapping[str, Any], where: str
) -> str | None:
    pair.left -= len(writer["fields"])
    written = {each["name"]: each for each in writer["fields"]}
    for each in reader["fields"]:
        found = next((written[name] for name in _names_of(pair, each) if name in written), None)
        inside = f"{where}.{each['name'][:_MOST_NAME]}"
        if found is None:
            if "default" not in each:
                return f"{inside}: the writer lacks it, and it has no default"
            continue
        why = _mismatch(pair, each["type"], found["type"], inside)
        if why is not None:
            return why
    return None
