"""The forms that skip messages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from console.forms.fields import MOST_MESSAGES
from console.forms.form import ActForm

__all__ = ["ClearForm", "SkipForm", "SkipOneForm"]


class SkipForm(ActForm):
    """The form that skips the next messages."""

    kind = "skip"
    heading = gettext_lazy("Skip messages")
    lead = gettext_lazy("Skip the next messages: they count as acked and are never delivered.")
    template = "console/forms/skip.html"
    needs_order = True

    messages = forms.IntegerField(
        min_value=1,
        max_value=MOST_MESSAGES,
        error_messages={
            "required": gettext_lazy("Say how many messages to skip."),
            "min_value": gettext_lazy("At least 1 message."),
        },
    )

    def parameters(self) -> dict[str, Any]:
        return {"messages": self.cleaned_data["messages"]}


class SkipOneForm(ActForm):
    """The form that skips one message."""

    kind = "skip_one"
    heading = gettext_lazy("Skip one message")
    lead = gettext_lazy(
        "Skip one message, for example one that always fails: it counts as acked and is never delivered."
    )
    template = "console/forms/skip_one.html"

    id = forms.CharField(error_messages={"required": gettext_lazy("Give the message id.")})

    def clean_id(self) -> str:
        return self.message_id(self.cleaned_data["id"])

    def parameters(self) -> dict[str, Any]:
        return {"id": self.cleaned_data["id"]}


class ClearForm(ActForm):
    """The form that skips the whole backlog."""

    kind = "clear"
    heading = gettext_lazy("Clear the backlog")
    lead = gettext_lazy("Skip every message that waits now: they count as acked and are never delivered.")
    template = "console/forms/clear.html"
