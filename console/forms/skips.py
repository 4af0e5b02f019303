"""The forms that count messages as acked before they are delivered."""

from __future__ import annotations

from typing import Any

from django import forms

from console.forms.fields import MOST_MESSAGES, read_message_id
from console.forms.form import ActForm

__all__ = ["ClearForm", "SkipForm", "SkipOneForm"]


class SkipForm(ActForm):
    """Skip the next N messages."""

    kind = "skip"
    heading = "Skip messages"
    lead = "Skip the next messages: they count as acked and are never delivered."
    template = "console/forms/skip.html"
    needs_order = True

    messages = forms.IntegerField(
        min_value=1,
        max_value=MOST_MESSAGES,
        error_messages={"required": "Say how many messages to skip.", "min_value": "At least 1 message."},
    )

    def parameters(self) -> dict[str, Any]:
        """Return the number of messages."""
        return {"messages": self.cleaned_data["messages"]}


class SkipOneForm(ActForm):
    """Skip one message, wherever it is."""

    kind = "skip_one"
    heading = "Skip one message"
    lead = "Skip one message, for example one that always fails: it counts as acked and is never delivered."
    template = "console/forms/skip_one.html"

    id = forms.CharField(error_messages={"required": "Give the message id."})

    def clean_id(self) -> str:
        """Check the form of the id. The act checks that the topic has the message."""
        return read_message_id(self.cleaned_data["id"])

    def parameters(self) -> dict[str, Any]:
        """Return the message id."""
        return {"id": self.cleaned_data["id"]}


class ClearForm(ActForm):
    """Skip the whole backlog."""

    kind = "clear"
    heading = "Clear the backlog"
    lead = "Skip every message that waits now: they count as acked and are never delivered."
    template = "console/forms/clear.html"
