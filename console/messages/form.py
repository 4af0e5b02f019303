"""The forms of the message browser."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.messages.asked import LIMIT, MOST_ROWS, Asked, AskedInvalid, Start, read_mark, read_spot
from console.messages.filters import Filters
from console.messages.values.columns import MOST_COLUMNS, Column, ColumnInvalid, parse_columns
from console.messages.values.json_path import OPERATORS, JsonPathInvalid, JsonTest, Operator, parse_path
from console.words.messages import OPERATOR_WORDS, ORDERS, STARTS
from console.words.numerals import read_time_ms, zone_name

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["BrowseForm", "FilterForm", "asked_of", "filters_of"]

_MOST_TEXT = 4096


def _operator_word(operator: str) -> StrOrPromise:
    word = OPERATOR_WORDS.get(operator)
    return operator if word is None else gettext_lazy(word)


class ColumnsField(forms.Field):
    """The chosen columns."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: list[str] | None) -> tuple[Column, ...]:
        try:
            return parse_columns(value or ())
        except ColumnInvalid as error:
            raise ValidationError(str(error)) from None


class FilterForm(forms.Form):
    """Reads filters from the query string."""

    partition = forms.IntegerField(
        label=gettext_lazy("Partition"), required=False, min_value=0, max_value=1_000_000
    )
    sub = forms.CharField(
        label=gettext_lazy("Subscription"), required=False, max_length=_MOST_TEXT, strip=False
    )
    key = forms.CharField(label=gettext_lazy("Key"), required=False, max_length=_MOST_TEXT, strip=False)
    prop = forms.CharField(label=gettext_lazy("Property"), required=False, max_length=_MOST_TEXT, strip=False)
    path = forms.CharField(label=gettext_lazy("JSON path"), required=False, max_length=_MOST_TEXT)
    op = forms.ChoiceField(
        label=gettext_lazy("Operator"),
        required=False,
        choices=[(each, _operator_word(each)) for each in OPERATORS],
    )
    value = forms.CharField(label=gettext_lazy("Value"), required=False, max_length=_MOST_TEXT, strip=False)
    text = forms.CharField(
        label=gettext_lazy("Payload contains"), required=False, max_length=_MOST_TEXT, strip=False
    )

    column = ColumnsField(label=gettext_lazy("Columns"), required=False)

    asked: Asked

    @property
    def column_inputs(self) -> list[str]:
        """The values of the column inputs."""
        given = [name for name in self["column"].value() or () if name.strip()]
        return [*given, ""] if len(given) < MOST_COLUMNS else given

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        try:
            self.asked = asked_of(given)
        except AskedInvalid as error:
            self.add_error(error.field, ValidationError(str(error)))
        return given


class BrowseForm(FilterForm):
    """Adds fields for the start, the direction and the number of rows."""

    start = forms.ChoiceField(
        label=gettext_lazy("Start"),
        required=False,
        choices=[(name, gettext_lazy(words)) for name, words in STARTS.items()],
    )
    at = forms.CharField(label=gettext_lazy("Time or position"), required=False, max_length=100)
    zone = forms.CharField(required=False, max_length=100)
    order = forms.ChoiceField(
        label=gettext_lazy("Direction"),
        required=False,
        choices=[(name, gettext_lazy(words)) for name, words in ORDERS.items()],
    )
    limit = forms.IntegerField(label=gettext_lazy("Rows"), required=False, min_value=1, max_value=MOST_ROWS)
    after = forms.CharField(label=gettext_lazy("Continue"), required=False, max_length=100)

    @property
    def zone_name(self) -> str:
        """The name of the time zone."""
        return self.data.get("zone") or ("UTC" if self.data.get("at") else zone_name())


def asked_of(given: dict[str, Any]) -> Asked:
    """Return the search that these values describe. Raises AskedInvalid if a value is wrong."""
    start: Start = given.get("start") or "newest"
    order = given.get("order") or ("older" if start == "newest" else "newer")
    at = given.get("at") or ""
    return Asked(
        start=start,
        time_ms=_read("at", partial(_time_ms, zone=given.get("zone") or "UTC"), at)
        if start == "time" and at
        else None,
        spot=_read("at", read_spot, at) if start == "id" and at else None,
        is_backward=order == "older",
        partition=given.get("partition"),
        subscription=given.get("sub") or "",
        filters=filters_of(given),
        columns=given.get("column") or (),
        limit=given.get("limit") or LIMIT,
        after=_read("after", read_mark, given["after"]) if given.get("after") else None,
    )


def _time_ms(text: str, *, zone: str) -> int:
    try:
        found = ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise ValueError(_("There is no time zone {zone!r}.").format(zone=zone)) from None
    return read_time_ms(text, found)


def filters_of(given: dict[str, Any]) -> Filters:
    """Return the filters among these values. Raises AskedInvalid if a filter is wrong."""
    name, sign, value = (given.get("prop") or "").partition("=")
    if sign and not name:
        raise AskedInvalid("prop", _("Write a property as name=value, or its name alone for any value."))
    path, compared = given.get("path") or "", given.get("value") or ""
    if not path and compared:
        raise AskedInvalid("path", _("Say where the value is, for example order.total."))
    json_test = None
    if path:
        operator: Operator = given.get("op") or ("=" if compared else "exists")
        if operator != "exists" and not compared:
            raise AskedInvalid(
                "value", _("Give the value to compare with, or choose “{exists}”.").format(exists=_("exists"))
            )
        steps = _read("path", parse_path, path)
        json_test = JsonTest(path=steps, operator=operator, text=compared)
    return Filters(
        key=given.get("key") or "",
        property_name=name,
        property_value=value if sign else None,
        json_test=json_test,
        text=given.get("text") or "",
    )


def _read(field: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except (ValueError, JsonPathInvalid) as error:
        raise AskedInvalid(field, str(error)) from None
