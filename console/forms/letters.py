"""The forms that move messages to a dead-letter topic and back. A letter is a message in a dead-letter topic."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms.fields import filled_in, read_time, read_topic_name
from console.forms.form import ActForm
from console.words.numerals import in_zone

__all__ = ["RedriveForm", "SendToDeadLettersForm"]


class SendToDeadLettersForm(ActForm):
    """The form that copies a message to the dead-letter topic and acknowledges the original."""

    kind = "send_to_dead_letters"
    heading = gettext_lazy("Send to dead letters")
    lead = gettext_lazy(
        "Copy a message that always fails to the dead-letter topic, then acknowledge it here."
    )
    template = "console/forms/fields.html"

    id = forms.CharField(
        label=gettext_lazy("Message id"),
        help_text=gettext_lazy("for example 12:4071"),
        error_messages={"required": gettext_lazy("Give the message id.")},
    )
    to_topic = forms.CharField(
        label=gettext_lazy("Dead-letter topic"),
        help_text=gettext_lazy("empty: the one that the consumers use, or TOPIC-SUBSCRIPTION-DLQ"),
        required=False,
    )

    def clean_id(self) -> str:
        return self.message_id(self.cleaned_data["id"])

    def clean_to_topic(self) -> str:
        return read_topic_name(self.cleaned_data["to_topic"])

    def parameters(self) -> dict[str, Any]:
        return filled_in(self.cleaned_data)


class RedriveForm(ActForm):
    """The form that publishes dead letters to their original topics, or to a chosen topic."""

    kind = "redrive"
    heading = gettext_lazy("Redrive")
    lead = gettext_lazy(
        "Publish the letters that wait here to their original topics, then acknowledge them here."
    )
    template = "console/forms/fields.html"

    to_topic = forms.CharField(
        label=gettext_lazy("To topic"),
        help_text=gettext_lazy("empty: the topic in the property REAL_TOPIC"),
        required=False,
    )
    id = forms.CharField(
        label=gettext_lazy("Message id"), help_text=gettext_lazy("only this letter"), required=False
    )
    key = forms.CharField(
        label=gettext_lazy("Key"),
        help_text=gettext_lazy("only letters with this key"),
        required=False,
        strip=False,
    )
    property_name = forms.CharField(
        label=gettext_lazy("Property"),
        help_text=gettext_lazy("only letters that have this property"),
        required=False,
        strip=False,
    )
    property_value = forms.CharField(
        label=gettext_lazy("Value"),
        help_text=gettext_lazy("only letters whose property has this value"),
        required=False,
        strip=False,
    )
    after_ms = forms.CharField(
        label=gettext_lazy("Stored at or after"),
        help_text=in_zone(gettext_lazy("for example 2026-01-31 14:00")),
        required=False,
    )
    before_ms = forms.CharField(
        label=gettext_lazy("Stored before"),
        help_text=in_zone(gettext_lazy("for example 2026-01-31 15:00")),
        required=False,
    )
    most = forms.IntegerField(
        label=gettext_lazy("At most"),
        help_text=gettext_lazy("letters; empty: 10,000"),
        required=False,
        min_value=1,
        max_value=10_000_000,
        error_messages={"min_value": gettext_lazy("At least 1 letter.")},
    )
    rate = forms.IntegerField(
        label=gettext_lazy("Letters a second"),
        help_text=gettext_lazy("empty: as fast as possible"),
        required=False,
        min_value=0,
        max_value=1_000_000,
    )
    max_redrives = forms.IntegerField(
        label=gettext_lazy("Leave out letters already redriven"),
        help_text=gettext_lazy("this many times or more; empty: 3"),
        required=False,
        min_value=1,
        max_value=1000,
    )

    def clean_id(self) -> str:
        text: str = self.cleaned_data["id"].strip()
        return self.message_id(text) if text else ""

    def clean_to_topic(self) -> str:
        return read_topic_name(self.cleaned_data["to_topic"])

    def clean_after_ms(self) -> int | None:
        return read_time(self.cleaned_data["after_ms"])

    def clean_before_ms(self) -> int | None:
        return read_time(self.cleaned_data["before_ms"])

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("property_value") and not given.get("property_name"):
            self.add_error("property_name", _("Name the property that has this value."))
        return given

    def parameters(self) -> dict[str, Any]:
        return filled_in(self.cleaned_data)
