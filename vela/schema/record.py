"""Records: classes whose attributes are fields."""

from __future__ import annotations

import copy
import enum
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, cast

from vela.schema.fields import CustomEnum, Described, FieldType

__all__ = ["Record", "RecordField", "definition_of", "filled"]

R = TypeVar("R", bound="Record")


class RecordMeta(ABCMeta):
    """Collects the fields of a record class, with those of its base classes first."""

    def __new__(
        metacls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> RecordMeta:
        fields: dict[str, FieldType] = {}
        for base in reversed(bases):
            fields.update(getattr(base, "__record_fields__", {}))
        for attribute, value in namespace.items():
            if isinstance(value, type) and issubclass(value, enum.Enum):
                fields[attribute] = CustomEnum(value)
            elif isinstance(value, RecordMeta):
                # the class itself is short for a field without a default
                fields[attribute] = RecordField(cast("type[Record]", value))
            elif isinstance(value, Described):
                fields[attribute] = type(value).as_field(value)
        namespace["__record_fields__"] = fields
        return super().__new__(metacls, name, bases, namespace, **kwargs)


class Record(Described, metaclass=RecordMeta):
    """A value with named fields. Subclass it and list the fields.

        class Order(Record):
            number = Long(required=True)
            lines = Array(String())

    `Order(number=7)` creates a value. Assigning a value of another type raises TypeError. Assigning to an unknown name
    raises AttributeError. Inside another record, use the class or an instance as a field: `Order(required=True)`.
    """

    __record_fields__: ClassVar[dict[str, FieldType]] = {}
    _avro_namespace: ClassVar[str | None] = None  # the record's namespace in the Avro definition
    _sorted_fields: ClassVar[bool] = False  # whether the definition sorts the fields by name

    def __init__(
        self,
        default: Any = None,
        required_default: bool = False,
        required: bool = False,
        **values: Any,
    ) -> None:
        """`values`: one for each field. A missing field gets its default; a record field without one gets a new record.

        The first three arguments describe the record as a field of another record, unless this record has fields with
        their names. Unknown names are ignored.
        """
        as_field = {"default": default, "required_default": required_default, "required": required}
        for name in as_field.keys() & self.__record_fields__.keys():
            values[name] = as_field.pop(name)
        self.__dict__["__as_field__"] = as_field
        _fill(self, values, avro=True)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return the Avro definition."""
        return definition_of(cls)

    def as_field(self) -> FieldType:
        return RecordField(type(self), **self.__dict__.get("__as_field__", {}))

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.__record_fields__.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        self.__dict__[name] = field.validate_type(name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or self.__record_fields__.keys() != other.__record_fields__.keys():
            return NotImplemented
        return all(self.__dict__[name] == other.__dict__[name] for name in self.__record_fields__)

    __hash__ = None  # type: ignore[assignment]  # its fields change

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.__record_fields__)
        return f"{type(self).__name__}({values})"


class RecordField(FieldType):
    """A field for a record inside a record, an array or a map."""

    def __init__(
        self,
        record_cls: type[Record],
        default: Record | Mapping[str, Any] | None = None,
        required_default: bool = False,
        required: bool = False,
    ) -> None:
        """`default`: a record of the class, or the values of one. Raises TypeError for anything else."""
        super().__init__(required=required, required_default=required_default)
        self._record_cls = record_cls
        self._default: Record | None = None
        if default is not None:
            self._default = self.validate_type("default", self.from_plain(default, avro=True))

    def schema_info(self, defined_names: set[str]) -> Any:
        return _definition(self._record_cls, defined_names)

    def validate_type(self, name: str, val: Any) -> Any:
        """Return `val`, or the default for None. Raises TypeError if `val` is not a record of the field's class."""
        if val is None and not self.required:
            return self.default()
        if not isinstance(val, self._record_cls):
            raise TypeError(f"field {name!r} takes {self._record_cls.__name__}, not {type(val).__name__}")
        return val

    def default(self) -> Any:
        """Return a copy of the given default, else None."""
        return copy.deepcopy(self._default)

    def left_out(self) -> Any:
        """Return a copy of the given default, else a new record.

        So you can assign `order.address.street` if the order got no address.
        """
        return filled(self._record_cls, {}, avro=True) if self._default is None else self.default()

    def to_plain(self, val: Any, *, avro: bool) -> Any:
        if val is None:
            return None
        own = val.__dict__
        return {name: field.to_plain(own[name], avro=avro) for name, field in val.__record_fields__.items()}

    def from_plain(self, val: Any, *, avro: bool) -> Any:
        return filled(self._record_cls, val, avro=avro) if isinstance(val, Mapping) else val


def filled(record_cls: type[R], values: Mapping[str, Any], *, avro: bool) -> R:
    """Return a record from plain values. Unlike the constructor, this accepts even a field named `self`.

    Raises TypeError if a value does not fit its field.
    """
    record = record_cls.__new__(record_cls)
    _fill(record, values, avro=avro)
    return record


def definition_of(record_cls: type[Record]) -> dict[str, Any]:
    """Return the Avro definition of a record class, as Apache's client writes it."""
    definition: dict[str, Any] = _definition(record_cls, set())
    return definition


def _fill(record: Record, values: Mapping[str, Any], *, avro: bool) -> None:
    own = record.__dict__
    for name, field in record.__record_fields__.items():
        if name in values:
            own[name] = field.validate_type(name, field.from_plain(values[name], avro=avro))
        else:
            own[name] = field.left_out()


def _definition(record_cls: type[Record], defined_names: set[str]) -> Any:
    short_name, namespace = record_cls.__name__, record_cls._avro_namespace  # noqa: SLF001 - the name is Apache's
    name = short_name if namespace is None else f"{namespace}.{short_name}"
    if name in defined_names:
        return name
    defined_names.add(name)
    definition: dict[str, Any] = {"type": "record", "name": short_name}
    if namespace is not None:
        definition["namespace"] = namespace
    fields = record_cls.__record_fields__
    is_sorted = record_cls._sorted_fields  # noqa: SLF001 - the name is Apache's
    names = sorted(fields) if is_sorted else list(fields)
    definition["fields"] = [_field_definition(name, fields[name], defined_names) for name in names]
    return definition


def _field_definition(name: str, field: FieldType, defined_names: set[str]) -> dict[str, Any]:
    """Return one member of "fields", with its keys in the order of Apache's client."""
    definition: dict[str, Any] = {"name": name}
    if field.required_default:
        definition["default"] = field.to_plain(field.default(), avro=True)
    kind = field.schema_info(defined_names)
    definition["type"] = kind if field.required else ["null", kind]
    return definition
