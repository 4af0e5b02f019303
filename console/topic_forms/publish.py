"""The forms that publish a new message or a stored message."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker.acts import requests as acts
from broker.acts.kinds.topics.message import MOST_PAYLOAD_BYTES
from console.forms import ActForm
from console.marks import is_plain
from console.topic_forms.labels import as_lines, read_lines
from console.words.numerals import in_zone, is_time, read_time_ms, time_text
from vela.wire.entry import Message

__all__ = ["AgainForm", "EditedForm", "PublishForm", "as_it_is", "to_edit"]

_UNITS_MS: Final = {"s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST_DELAY: Final = 1_000_000


class PublishForm(ActForm):
    """Write a message and publish it."""

    kind = "publish"
    heading = gettext_lazy("Publish")
    lead = gettext_lazy("Publish one message. Every subscription of the topic gets it.")
    template = "console/forms/publish.html"

    value = forms.CharField(
        label=gettext_lazy("Value"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )
    encoding = forms.ChoiceField(
        label=gettext_lazy("Written as"),
        choices=[
            ("text", gettext_lazy("text")),
            ("json", gettext_lazy("JSON, checked")),
            ("base64", gettext_lazy("base64, for bytes")),
        ],
        initial="text",
    )
    no_value = forms.BooleanField(
        label=gettext_lazy("No value"),
        help_text=gettext_lazy("not the same as an empty one; it deletes the key in a compacted topic"),
        required=False,
    )
    key = forms.CharField(
        label=gettext_lazy("Key"), help_text=gettext_lazy("optional"), required=False, strip=False
    )
    key_encoding = forms.ChoiceField(
        label=gettext_lazy("The key is written as"),
        choices=[("text", gettext_lazy("text")), ("base64", gettext_lazy("base64"))],
        initial="text",
    )
    properties = forms.CharField(
        label=gettext_lazy("Properties"),
        help_text=gettext_lazy("optional, one name = value per line, or a JSON object"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    event_time = forms.CharField(
        label=gettext_lazy("Event time"),
        help_text=in_zone(gettext_lazy("optional, for example 2026-01-31 09:30")),
        required=False,
    )
    delay = forms.IntegerField(
        label=gettext_lazy("Deliver only after"),
        help_text=gettext_lazy("optional; only Shared and Key_Shared subscriptions wait"),
        required=False,
        min_value=1,
        max_value=_LONGEST_DELAY,
        error_messages={
            "invalid": gettext_lazy("Give a whole number."),
            "min_value": gettext_lazy("At least 1."),
            "max_value": format_lazy(gettext_lazy("At most {most:,}."), most=_LONGEST_DELAY),
        },
    )
    delay_unit = forms.ChoiceField(
        label=gettext_lazy("Unit of the delay"), choices=[(each, each) for each in _UNITS_MS], initial="s"
    )
    partition = forms.IntegerField(
        label=gettext_lazy("Partition"),
        help_text=gettext_lazy("optional; by default the key chooses the partition"),
        required=False,
        min_value=0,
        max_value=9_999,
        error_messages={
            "invalid": gettext_lazy("Give the number of a partition."),
            "min_value": gettext_lazy("Partitions begin at 0."),
        },
    )
    ordering_key = forms.CharField(
        label=gettext_lazy("Ordering key"), help_text=gettext_lazy("optional, base64"), required=False
    )

    def clean_value(self) -> str:
        # Browsers send CRLF for a line break.
        value: str = self.cleaned_data["value"].replace("\r\n", "\n")
        return value

    def clean_properties(self) -> dict[str, str]:
        return read_lines(self.cleaned_data["properties"])

    def clean_event_time(self) -> int | None:
        text = self.cleaned_data["event_time"].strip()
        if not text:
            return None
        try:
            time_ms = read_time_ms(text)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        if time_ms <= 0:
            raise ValidationError(_("Give a time after 1970."))
        return time_ms

    def clean_ordering_key(self) -> str:
        return _checked_base64(self.cleaned_data["ordering_key"].strip())

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        value, encoding = given.get("value"), given.get("encoding")
        try:
            if given["no_value"]:
                if value:
                    self.add_error("value", _("Leave the value empty, or do not choose “No value”."))
            elif value is not None:
                given["value"] = _checked_value(value, encoding)
        except ValidationError as error:
            self.add_error("value", error)
        except (ValueError, RecursionError) as error:
            self.add_error("value", _("This is not JSON: {error}").format(error=error))
        if given.get("key") and given.get("key_encoding") == "base64":
            try:
                _checked_base64(given["key"])
            except ValidationError as error:
                self.add_error("key", error)
        return given

    def parameters(self) -> dict[str, Any]:
        given = self.cleaned_data
        chosen: dict[str, Any] = (
            {"null_value": True}
            if given["no_value"]
            else {"value": given["value"], "encoding": given["encoding"]}
        )
        if given["key"]:
            chosen |= {"key": given["key"], "key_encoding": given["key_encoding"]}
        if given["properties"]:
            chosen["properties"] = given["properties"]
        if given["event_time"] is not None:
            chosen["event_time_ms"] = given["event_time"]
        if given["delay"] is not None:
            chosen["deliver_after_ms"] = given["delay"] * _UNITS_MS[given["delay_unit"]]
        if given["partition"] is not None:
            chosen["partition"] = given["partition"]
        if given["ordering_key"]:
            chosen["ordering_key"] = given["ordering_key"]
        return chosen


class _ToTopic(forms.Form):
    to_topic = forms.CharField(
        label=gettext_lazy("Topic"),
        error_messages={"required": gettext_lazy("Name the topic to publish to.")},
    )

    def clean_to_topic(self) -> str:
        try:
            return acts.full_name("publish", self.cleaned_data["to_topic"].strip())
        except acts.ActRefused as refused:
            raise ValidationError(refused.text) from None


class AgainForm(_ToTopic):
    """Publish a stored message as it is."""


class EditedForm(PublishForm, _ToTopic):
    """Publish a stored message with changes."""

    heading = gettext_lazy("Publish again")


def as_it_is(message: Message) -> dict[str, Any]:
    """Return the parameters that publish a stored message again."""
    chosen: dict[str, Any] = (
        {"null_value": True}
        if message.null_value
        else {"value": base64.b64encode(message.payload).decode(), "encoding": "base64"}
    )
    if message.properties:
        chosen["properties"] = dict(message.properties)
    if message.key is not None:
        chosen |= {"key": message.key, "key_encoding": "base64" if message.key_b64 else "text"}
    if message.event_time_ms:
        chosen["event_time_ms"] = message.event_time_ms
    if message.ordering_key is not None:
        chosen["ordering_key"] = base64.b64encode(message.ordering_key).decode()
    return chosen


def to_edit(message: Message) -> Mapping[str, Any]:
    """Return the initial values of the form that edits a message."""
    payload = b"" if message.null_value else message.payload
    text = _editable(payload)
    key = message.key
    is_binary_key = message.key_b64 or (key is not None and _editable(key.encode(), has_lines=False) is None)
    if key is not None and is_binary_key and not message.key_b64:
        key = base64.b64encode(key.encode()).decode()
    return {
        "value": base64.b64encode(payload).decode() if text is None else text,
        "encoding": "base64" if text is None else "json" if _is_json(text) else "text",
        "no_value": message.null_value,
        "key": key,
        "key_encoding": "base64" if is_binary_key else "text",
        "properties": as_lines(message.properties),
        "event_time": _moment(message.event_time_ms),
        "ordering_key": ""
        if message.ordering_key is None
        else base64.b64encode(message.ordering_key).decode(),
    }


def _editable(data: bytes, *, has_lines: bool = True) -> str | None:
    """Return the bytes as text, or None if a form field cannot show the bytes unchanged."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    is_kept = is_plain(text) and "\r" not in text and (has_lines or "\n" not in text)
    return text if is_kept else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _moment(time_ms: int) -> str:
    return time_text(time_ms) if time_ms and is_time(time_ms) else ""


def _checked_value(value: str, encoding: str | None) -> str:
    if encoding == "base64":
        value = "".join(value.split())
    # The limit leaves room for base64. The broker checks the decoded size.
    if len(value.encode()) > MOST_PAYLOAD_BYTES * 4 // 3 + 4:
        raise ValidationError(_("The value is too large: at most 1 MiB. Use a client for larger messages."))
    if encoding == "base64":
        _checked_base64(value)
    elif encoding == "json":
        json.loads(value)
    return value


def _checked_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise ValidationError(_("This is not base64.")) from None
    return text
