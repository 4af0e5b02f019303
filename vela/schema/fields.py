"""The types that the fields of a record can have.

Names, arguments and the definitions sent to the broker are those of Apache's `pulsar.schema`, so a topic's schema is
the same for both clients.
"""

from __future__ import annotations

import copy
import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "Array",
    "Boolean",
    "Bytes",
    "CustomEnum",
    "Described",
    "Double",
    "Field",
    "FieldType",
    "Float",
    "Integer",
    "Long",
    "Map",
    "Null",
    "String",
]

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


class Described(ABC):
    """A field, or a record that is used as a field."""

    @abstractmethod
    def as_field(self) -> FieldType:
        """Return this object as a field."""


class FieldType(Described):
    """The interface of the fields of a record."""

    required: bool  # None is not allowed
    required_default: bool  # the definition contains the default, for readers of older messages

    def __init__(self, *, required: bool, required_default: bool) -> None:
        self.required = required
        self.required_default = required_default

    def as_field(self) -> FieldType:
        return self

    @abstractmethod
    def schema_info(self, defined_names: set[str]) -> Any:
        """Return the field's Avro definition, or only the name of a type that is already in `defined_names`."""

    @abstractmethod
    def validate_type(self, name: str, val: Any) -> Any:
        """Return `val` as the record stores it. Raises TypeError if the field `name` does not allow it."""

    @abstractmethod
    def default(self) -> Any:
        """Return the value that None stands for."""

    def left_out(self) -> Any:
        """Return the value of a field that was left out."""
        return self.default()

    def to_plain(self, val: Any, *, avro: bool) -> Any:
        """Convert a value to dicts, lists, strings and numbers, for Avro or for JSON."""
        return val

    def from_plain(self, val: Any, *, avro: bool) -> Any:
        """Convert a result of `to_plain` back to the value."""
        return val


class Field(FieldType, Generic[T]):
    """A field of one type. None is allowed and means the default, unless the field is `required`."""

    avro_type: ClassVar[str]
    python_types: ClassVar[tuple[type, ...]]

    def __init__(
        self, default: T | None = None, required: bool = False, required_default: bool = False
    ) -> None:
        """`required_default`: the definition states the default. Raises TypeError for a default of another type."""
        super().__init__(required=required, required_default=required_default)
        self._default: T | None = None
        if default is not None:
            self._default = self.validate_type("default", default)

    if TYPE_CHECKING:  # instances of a record have values, its class has fields

        @overload
        def __get__(self, instance: None, owner: Any) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> T: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: T | None) -> None: ...

    def schema(self) -> Any:
        """Return the field's Avro definition by itself."""
        return self.schema_info(set())

    def schema_info(self, defined_names: set[str]) -> Any:
        return self.avro_type

    def validate_type(self, name: str, val: Any) -> Any:
        """Return `val`, or the default for None. Raises TypeError."""
        if val is None and not self.required:
            return self.default()
        if not isinstance(val, self.python_types):
            wanted = " or ".join(kind.__name__ for kind in self.python_types)
            raise TypeError(f"field {name!r} takes {wanted}, not {type(val).__name__}")
        return val

    def default(self) -> Any:
        return self._default


class Null(Field[None]):
    """Always None."""

    avro_type = "null"
    python_types = (type(None),)


class Boolean(Field[bool]):
    """True or False; False by default."""

    avro_type = "boolean"
    python_types = (bool,)

    def default(self) -> bool:
        """Return the given default, else False."""
        return bool(self._default)


class Integer(Field[int]):
    """A whole number of 32 bits."""

    avro_type = "int"
    python_types = (int,)


class Long(Field[int]):
    """A whole number of 64 bits."""

    avro_type = "long"
    python_types = (int,)


class Float(Field[float]):
    """A number with a fraction, of 32 bits: with Avro, 0.1 comes back as 0.10000000149011612."""

    avro_type = "float"
    python_types = (float, int)


class Double(Field[float]):
    """A number with a fraction, of 64 bits."""

    avro_type = "double"
    python_types = (float, int)


class Bytes(Field[bytes]):
    """Bytes. A str is encoded in UTF-8. In JSON, bytes are text, so they must be valid UTF-8."""

    avro_type = "bytes"
    python_types = (bytes, str)

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        return val.encode() if isinstance(val, str) else val

    def to_plain(self, val: Any, *, avro: bool) -> Any:
        """Return text for JSON."""
        return val if avro or val is None else val.decode()


class String(Field[str]):
    """Text. Bytes are decoded as UTF-8."""

    avro_type = "string"
    python_types = (str, bytes)

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        return val.decode() if isinstance(val, bytes) else val


class CustomEnum(Field[E]):
    """A member of an enumeration. A record accepts the member, its name or its value."""

    avro_type = "enum"

    def __init__(
        self,
        enum_type: type[E],
        default: E | None = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        """In a record, `enum_type` itself is short for a field of this type without a default."""
        if not (isinstance(enum_type, type) and issubclass(enum_type, enum.Enum)):
            raise TypeError(f"{enum_type!r} is not an enumeration")
        self.enum_type = enum_type
        self._by_text = {member.value: member for member in enum_type if isinstance(member.value, str)}
        super().__init__(default, required, required_default)

    def schema_info(self, defined_names: set[str]) -> Any:
        name = self.enum_type.__name__
        if name in defined_names:
            return name
        defined_names.add(name)
        return {"type": "enum", "name": name, "symbols": [member.name for member in self.enum_type]}

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None and not self.required:
            return self.default()
        if isinstance(val, self.enum_type):
            return val
        if isinstance(val, str) and val in self.enum_type.__members__:
            return self.enum_type[val]
        try:
            return self.enum_type(val)
        except ValueError:
            names = ", ".join(self.enum_type.__members__)
            raise TypeError(f"field {name!r} takes one of {names}, not {val!r}") from None

    def to_plain(self, val: Any, *, avro: bool) -> Any:
        """Return the member's name for Avro and its value for JSON, as Apache's client does."""
        if val is None:
            return None
        return val.name if avro else val.value

    def from_plain(self, val: Any, *, avro: bool) -> Any:
        """Return the member that has this text as its value in JSON, even if another member has it as its name."""
        return self._by_text.get(val, val) if isinstance(val, str) and not avro else val


class Array(Field[list[Any]]):
    """A list of values of one type."""

    avro_type = "array"
    python_types = (list,)

    def __init__(
        self,
        array_type: Described,
        default: list[Any] | None = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        """`array_type`: a field or a record, as an instance: `Array(Integer())`."""
        self.array_type = _member(array_type)
        super().__init__(default, required, required_default)

    def schema_info(self, defined_names: set[str]) -> Any:
        return {"type": "array", "items": self.array_type.schema_info(defined_names)}

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        return val if val is None else [self.array_type.validate_type(f"{name}[]", item) for item in val]

    def default(self) -> Any:
        """Return a copy of the default, so that records do not share a list."""
        return copy.copy(self._default)

    def to_plain(self, val: Any, *, avro: bool) -> Any:
        return None if val is None else [self.array_type.to_plain(item, avro=avro) for item in val]

    def from_plain(self, val: Any, *, avro: bool) -> Any:
        if not isinstance(val, list):
            return val
        return [self.array_type.from_plain(item, avro=avro) for item in val]


class Map(Field[dict[str, Any]]):
    """A dictionary of strings to values of one type."""

    avro_type = "map"
    python_types = (dict,)

    def __init__(
        self,
        value_type: Described,
        default: dict[str, Any] | None = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        """`value_type`: a field or a record, as an instance: `Map(String())`."""
        self.value_type = _member(value_type)
        super().__init__(default, required, required_default)

    def schema_info(self, defined_names: set[str]) -> Any:
        return {"type": "map", "values": self.value_type.schema_info(defined_names)}

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        if val is None:
            return None
        for key in val:
            if not isinstance(key, str):
                raise TypeError(f"the keys of field {name!r} are str, not {type(key).__name__}")
        return {key: self.value_type.validate_type(f"{name}[{key!r}]", item) for key, item in val.items()}

    def default(self) -> Any:
        """Return a copy of the default, so that records do not share a dictionary."""
        return copy.copy(self._default)

    def to_plain(self, val: Any, *, avro: bool) -> Any:
        if val is None:
            return None
        return {key: self.value_type.to_plain(item, avro=avro) for key, item in val.items()}

    def from_plain(self, val: Any, *, avro: bool) -> Any:
        if not isinstance(val, Mapping):
            return val
        return {key: self.value_type.from_plain(item, avro=avro) for key, item in val.items()}


def _member(value: object) -> FieldType:
    """Return the type of an Array's or Map's values. Raises TypeError for a class, because it needs an instance."""
    if not isinstance(value, Described):
        name = getattr(value, "__name__", repr(value))
        raise TypeError(
            f"{name} is neither a field nor a record: write an instance, such as Array(Integer())"
        )
    return type(value).as_field(value)
