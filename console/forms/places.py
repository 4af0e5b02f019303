"""The forms that move a cursor to a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms.fields import MOST_MESSAGES, read_time
from console.forms.form import ActForm

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["PlaceForm", "ResetForm", "RewindForm"]


class RewindForm(ActForm):
    """The form that moves a cursor back by a preset time or by a number of messages."""

    kind = "reset"
    heading = gettext_lazy("Rewind")
    lead = gettext_lazy("Deliver messages again that this subscription has already acked.")
    template = "console/forms/rewind.html"

    PRESETS: ClassVar[dict[str, tuple[StrOrPromise, int]]] = {
        "15m": (gettext_lazy("15 minutes"), 15 * 60_000),
        "1h": (gettext_lazy("1 hour"), 3_600_000),
        "6h": (gettext_lazy("6 hours"), 6 * 3_600_000),
        "1d": (gettext_lazy("1 day"), 24 * 3_600_000),
    }

    back = forms.CharField(required=False)
    messages = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_MESSAGES,
        error_messages={"min_value": gettext_lazy("At least 1 message.")},
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        back = given.get("back") or ""
        if back and back not in self.PRESETS:
            raise ValidationError(_("Choose one of the lengths of time shown."))
        if not back and not given.get("messages") and "messages" not in self.errors:
            self.add_error("messages", _("Say how many messages to go back."))
        return given

    def parameters(self) -> dict[str, Any]:
        back = self.cleaned_data["back"]
        if back:
            return {"to": "back_time", "back_ms": self.PRESETS[back][1]}
        return {"to": "shift", "messages": -self.cleaned_data["messages"]}


class PlaceForm(ActForm):
    """The fields that name a place in a topic."""

    to = forms.ChoiceField(
        choices=[("earliest", ""), ("latest", ""), ("time", ""), ("id", ""), ("bookmark", "")],
        error_messages={
            "required": gettext_lazy("Choose a place."),
            "invalid_choice": gettext_lazy("Choose a place."),
        },
    )
    time = forms.CharField(required=False)
    id = forms.CharField(required=False)
    start = forms.ChoiceField(required=False, choices=[("at", ""), ("after", "")])
    bookmark = forms.CharField(required=False, strip=False)

    def clean_time(self) -> int | None:
        return read_time(self.cleaned_data["time"])

    def clean_id(self) -> str:
        text: str = self.cleaned_data["id"].strip()
        return self.message_id(text) if text else ""

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("to") == "time" and given.get("time") is None and "time" not in self.errors:
            self.add_error("time", _("Give the time."))
        if given.get("to") == "id" and not given.get("id") and "id" not in self.errors:
            self.add_error("id", _("Give the message id."))
        if given.get("to") == "bookmark" and not given.get("bookmark"):
            self.add_error("bookmark", _("Give the name of a bookmark of this topic."))
        return given

    def place(self) -> dict[str, Any]:
        """Return the parameters for the chosen place."""
        given = self.cleaned_data
        match given["to"]:
            case "time":
                return {"to": "time", "time_ms": given["time"]}
            case "id":
                return {"to": "id", "id": given["id"], "inclusive": given["start"] != "after"}
            case "bookmark":
                return {"to": "bookmark", "bookmark": given["bookmark"]}
            case end:
                return {"to": end}


class ResetForm(PlaceForm):
    """The form that moves a cursor to an exact place."""

    kind = "reset"
    heading = gettext_lazy("Reset")
    lead = gettext_lazy("Put the cursor at an exact place, forward or back.")
    template = "console/forms/reset.html"

    def parameters(self) -> dict[str, Any]:
        return self.place()
