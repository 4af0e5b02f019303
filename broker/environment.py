"""Read settings from environment variables. Each field of a dataclass declares one setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import GetCoreSchemaHandler, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, core_schema

__all__ = ["Between", "Names", "SettingInvalid", "Variable", "listed", "read_settings", "variables_of"]

T = TypeVar("T")

_MOST = 2**62  # Fits PostgreSQL's bigint


class SettingInvalid(ValueError):
    """One or more settings cannot be used. The message gives the reasons."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The environment variable that sets a field."""

    name: str
    unit: str
    help: str
    is_secret: bool = False  # Whether error messages hide the value


@dataclass(frozen=True, slots=True)
class Between:
    """Annotates an int with its inclusive bounds."""

    least: int
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bounds = f"of at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        return core_schema.custom_error_schema(
            core_schema.int_schema(ge=self.least, le=_MOST if self.most is None else self.most),
            custom_error_type="not_between",
            custom_error_message=f"it takes a number {bounds}",
        )


def listed(text: str) -> tuple[str, ...]:
    """Split at commas. Strip spaces and drop empty parts."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


Names = Annotated[tuple[str, ...], PlainValidator(listed)]
"""A comma-separated list."""


def read_settings(shape: type[T], environment: Mapping[str, str]) -> T:
    """Fill a dataclass from the environment. An empty variable counts as unset.

    Every field needs a Variable and a default. Raises SettingInvalid with a line for each bad variable.
    """
    plain: type = shape  # mypy considers type[T] unhashable
    values: dict[str, Any] = {}
    complaints = []
    for field, (hint, variable) in _declared(plain).items():
        text = environment.get(variable.name)
        if not text:
            continue
        try:
            values[field] = _adapter(hint).validate_python(text)
        except ValidationError as error:
            complaints.append(_complaint(variable, text, error.errors(include_url=False)[0]))
    if complaints:
        raise SettingInvalid("\n".join(complaints))
    return shape(**values)


def variables_of(shape: type) -> dict[str, Variable]:
    """Return the variable of each field, in order."""
    return {field: variable for field, (_, variable) in _declared(shape).items()}


@cache
def _declared(shape: type) -> dict[str, tuple[Any, Variable]]:
    hints = get_type_hints(shape, include_extras=True)
    found = {}
    for field in fields(shape):
        metadata = getattr(hints[field.name], "__metadata__", ())
        variables = [each for each in metadata if isinstance(each, Variable)]
        if len(variables) != 1:
            raise TypeError(f"{shape.__name__}.{field.name} needs one Variable")
        found[field.name] = (hints[field.name], variables[0])
    return found


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def _complaint(variable: Variable, text: str, error: ErrorDetails) -> str:
    takes = _takes(error)
    given = "cannot be used" if variable.is_secret else f"is {text!r}"
    return f"{variable.name} {given}: {takes} ({variable.help})"


def _takes(error: ErrorDetails) -> str:
    if error["type"] in ("bool_parsing", "bool_type"):
        return "it takes 1 or 0"
    if error["type"] == "literal_error":
        return f"it takes {error['ctx']['expected'].replace(chr(39), '')}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return error["msg"]
