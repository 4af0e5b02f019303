"""Parameters of the operations on alert rules. `RuleForm` checks the values."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from broker.models import AlertRule, Measure, Severity
from console.alerts.form import RuleForm, initial_of
from console.api.alerts.answers import AlertSeverity
from console.api.parameters import StorableText
from console.api.problems import Problem
from vela.wire.quantities import read_length_ms, write_length

__all__ = ["ChangedRule", "NewRule", "Silence", "checked_rule", "silence_ms"]


def _quantity(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str | None):
        raise PydanticCustomError("not_a_quantity", "it takes a whole number, or text such as 15m or 10GB")
    return "" if value is None else str(value)


_Quantity = Annotated[
    StorableText, BeforeValidator(_quantity), WithJsonSchema({"type": ["integer", "string", "null"]})
]

_Threshold = Annotated[
    _Quantity,
    Field(
        description="a whole number in the measure's unit (messages, ms, bytes, redeliveries per second), or text: 15m,"
        " 10GB"
    ),
]
_Within = Annotated[
    _Quantity,
    Field(description="dead letters only: the period in which new letters count: a number of ms, or 10m"),
]
_For = Annotated[
    _Quantity,
    Field(
        description="how long the value must be above the threshold before an alert fires, and not above it before the"
        " alert clears: a number of ms, or 5m"
    ),
]
_Namespaces = Annotated[StorableText, Field(description="*, tenant/* or tenant/namespace")]


class ChangedRule(BaseModel):
    """Changes to a rule. Fields that are left out keep their values."""

    model_config = ConfigDict(extra="forbid")

    name: StorableText = ""
    measure: Measure = Measure.BACKLOG
    threshold: _Threshold = ""
    within_ms: _Within = ""
    for_ms: _For = ""
    namespaces: _Namespaces = ""
    topics: Annotated[StorableText, Field(description="local names; * stands for anything; empty: all")] = ""
    subscriptions: Annotated[StorableText, Field(description="* stands for anything; empty: all")] = ""
    severity: AlertSeverity = Severity.WARNING
    webhook_url: Annotated[
        StorableText, Field(description="a URL that gets JSON by POST; the API never returns it; empty: none")
    ] = ""
    email: Annotated[StorableText, Field(description="one address; empty: none")] = ""


class NewRule(ChangedRule):
    """A rule to create."""

    name: StorableText
    measure: Measure
    for_ms: _For = "5m"
    namespaces: _Namespaces = "*"


class Silence(BaseModel):
    """A request to silence a rule."""

    model_config = ConfigDict(extra="forbid")

    for_ms: Annotated[_Quantity, Field(description="from now on: a number of ms, or 8h; 0 ends the silence")]


_FIELDS: Final = {"threshold": "limit", "within_ms": "within", "for_ms": "lasts"}
_MEMBERS: Final = {field: member for member, field in _FIELDS.items()}
_LONGEST_SILENCE_MS: Final = 365 * 24 * 3600 * 1000
_UNITS: Final = {"ms": "ms", "bytes": "B"}


def checked_rule(rule: AlertRule | None, asked: ChangedRule) -> dict[str, Any]:
    """Return the values that `save_rule` takes, or raise Problem for the first wrong field."""
    given = asked.model_dump(exclude_unset=rule is not None)
    measure = Measure(given.get("measure") or (rule.measure if rule else Measure.BACKLOG))
    for member, unit in (("threshold", measure.unit), ("within_ms", "ms"), ("for_ms", "ms")):
        if given.get(member, "").isdecimal():
            given[member] += _UNITS.get(unit, "")
    fields = {_FIELDS.get(name, name): value for name, value in given.items()}
    drops = {"drop_webhook": "on"} if fields.get("webhook_url") == "" else {}
    before = initial_of(rule) if rule else {}
    form = RuleForm(before | fields | drops, kept_url=rule.webhook_url if rule else "")
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        raise Problem(422, "InvalidParameters", f"{_MEMBERS.get(field, field)}: {errors[0]}")
    return form.values


def silence_ms(asked: Silence) -> int:
    """Return the length of the silence in ms. Raises Problem if the length is unreadable or exceeds a year."""
    text = f"{asked.for_ms}ms" if asked.for_ms.isdecimal() else asked.for_ms
    try:
        length_ms = read_length_ms(text)
    except ValueError as error:
        raise Problem(422, "InvalidParameters", f"for_ms: {error}") from error
    if length_ms > _LONGEST_SILENCE_MS:
        longest = write_length(_LONGEST_SILENCE_MS)
        raise Problem(422, "InvalidParameters", f"for_ms: {longest} is the longest silence")
    return length_ms
