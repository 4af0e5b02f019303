"""What an operator fills in: one form for each kind of act, and the one that applies a plan.

A valid description has `.kind` and `.parameters()` as broker.acts.requests takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from broker.acts.requests import MOST_DRIFT_MESSAGES
from console.marks import shown
from console.words.acts import must_type_name
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

__all__ = [
    "ActForm",
    "ApplyForm",
    "ClearForm",
    "DisconnectForm",
    "PauseForm",
    "RedeliverForm",
    "ResetForm",
    "ResumeForm",
    "RewindForm",
    "SkipForm",
    "act_forms",
]

_MOST = 10**12


class ActForm(forms.Form):
    """A described act."""

    kind: ClassVar[str]
    heading: ClassVar[str]
    lead: ClassVar[str]
    template: ClassVar[str]

    def parameters(self) -> dict[str, Any]:
        """Of a valid form."""
        return {}


class RewindForm(ActForm):
    """Back by a length of time (a preset button) or by a number of messages."""

    kind = "reset"
    heading = "Rewind"
    lead = "Deliver again what this subscription has already acked."
    template = "console/forms/rewind.html"

    PRESETS: ClassVar[dict[str, tuple[str, int]]] = {
        "15m": ("15 minutes", 15 * 60_000),
        "1h": ("1 hour", 3_600_000),
        "6h": ("6 hours", 6 * 3_600_000),
        "1d": ("1 day", 24 * 3_600_000),
    }

    back = forms.CharField(required=False)
    messages = forms.IntegerField(
        required=False, min_value=1, max_value=_MOST, error_messages={"min_value": "At least 1 message."}
    )

    def clean(self) -> dict[str, Any]:
        """One of the two must be given."""
        given = super().clean() or {}
        back = given.get("back") or ""
        if back and back not in self.PRESETS:
            raise ValidationError("Choose one of the lengths of time shown.")
        if not back and not given.get("messages") and "messages" not in self.errors:
            self.add_error("messages", "Say how many messages to go back.")
        return given

    def parameters(self) -> dict[str, Any]:
        """By time when a preset was pressed, else by messages."""
        back = self.cleaned_data["back"]
        if back:
            return {"to": "back_time", "back_ms": self.PRESETS[back][1]}
        return {"to": "shift", "messages": -self.cleaned_data["messages"]}


class ResetForm(ActForm):
    """To the beginning, the end, a time or a message id."""

    kind = "reset"
    heading = "Reset"
    lead = "Put the cursor at an exact place, forward or back."
    template = "console/forms/reset.html"

    to = forms.ChoiceField(
        choices=[("earliest", ""), ("latest", ""), ("time", ""), ("id", "")],
        error_messages={"required": "Choose where to.", "invalid_choice": "Choose where to."},
    )
    time = forms.CharField(required=False)
    id = forms.CharField(required=False)
    start = forms.ChoiceField(required=False, choices=[("at", ""), ("after", "")])

    def clean_time(self) -> int | None:
        """UTC, as the browser's field writes it or ISO 8601 with an offset; milliseconds are kept."""
        text = self.cleaned_data["time"].strip()
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValidationError("Write the time as 2026-03-01 14:30:00.000, in UTC.") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)

    def clean_id(self) -> str:
        """ledger:entry[:partition[:batch index]]; whether it is of this topic is the act's to say."""
        text: str = self.cleaned_data["id"].strip()
        if not text:
            return ""
        try:
            return str(MessageId.parse(text))
        except InvalidMessageId:
            raise ValidationError("Write the message id as ledger:entry, for example 12:4071.") from None

    def clean(self) -> dict[str, Any]:
        """The chosen way needs its own field."""
        given = super().clean() or {}
        if given.get("to") == "time" and given.get("time") is None and "time" not in self.errors:
            self.add_error("time", "Give the time.")
        if given.get("to") == "id" and not given.get("id") and "id" not in self.errors:
            self.add_error("id", "Give the message id.")
        return given

    def parameters(self) -> dict[str, Any]:
        """Only what the chosen way needs."""
        given = self.cleaned_data
        match given["to"]:
            case "time":
                return {"to": "time", "time_ms": given["time"]}
            case "id":
                return {"to": "id", "id": given["id"], "inclusive": given["start"] != "after"}
            case end:
                return {"to": end}


class SkipForm(ActForm):
    """The next N messages are never delivered."""

    kind = "skip"
    heading = "Skip messages"
    lead = "Pass over the next messages: they count as acked and are not delivered."
    template = "console/forms/skip.html"

    messages = forms.IntegerField(
        min_value=1,
        max_value=_MOST,
        error_messages={"required": "Say how many messages to skip.", "min_value": "At least 1 message."},
    )

    def parameters(self) -> dict[str, Any]:
        """How many."""
        return {"messages": self.cleaned_data["messages"]}


class ClearForm(ActForm):
    """Everything that waits is never delivered."""

    kind = "clear"
    heading = "Clear the backlog"
    lead = "Pass over everything that waits now: it counts as acked and is not delivered."
    template = "console/forms/clear.html"


class PauseForm(ActForm):
    """Nothing is delivered for a while."""

    kind = "pause"
    heading = "Pause"
    lead = "Deliver nothing until it is resumed; consumers stay connected and may ack."
    template = "console/forms/clear.html"


class ResumeForm(ActForm):
    """The end of a pause."""

    kind = "resume"
    heading = "Resume"
    lead = "Deliver again after a pause."
    template = "console/forms/clear.html"


class RedeliverForm(ActForm):
    """What one consumer holds comes again."""

    kind = "redeliver"
    heading = "Redeliver"
    lead = "Take back what a consumer holds unacknowledged, and deliver it again now."
    template = "console/forms/consumer.html"

    consumer = forms.CharField(max_length=1000, error_messages={"required": "Say which consumer."})

    def parameters(self) -> dict[str, Any]:
        """By its name."""
        return {"consumer": self.cleaned_data["consumer"]}


class DisconnectForm(RedeliverForm):
    """One consumer is closed."""

    kind = "disconnect"
    heading = "Disconnect"
    lead = "Close a consumer; what it holds goes to the others. Most clients connect again by themselves."


act_forms: dict[str, type[ActForm]] = {
    "rewind": RewindForm,
    "reset": ResetForm,
    "skip": SkipForm,
    "clear": ClearForm,
    "pause": PauseForm,
    "resume": ResumeForm,
    "redeliver": RedeliverForm,
    "disconnect": DisconnectForm,
}


class ApplyForm(forms.Form):
    """The last step: a reason, how far the plan may have drifted, and a name where it is large or loses something."""

    reason = forms.CharField(required=False, max_length=500)
    allowed_drift_messages = forms.IntegerField(required=False, min_value=0, max_value=MOST_DRIFT_MESSAGES)
    confirm = forms.CharField(required=False)

    def __init__(self, *args: Any, plan: Mapping[str, Any] | None, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = name  # of what the act is about
        self._plan = plan
        self.must_type_name = must_type_name(plan)

    def clean(self) -> None:
        """Compare the typed name, where one is asked for by what the plan shows and what is allowed beyond."""
        self.must_type_name = must_type_name(self._plan, self.cleaned_data.get("allowed_drift_messages"))
        # The page shows unseen characters as marks, so a name typed with the marks counts too.
        names = (self.name, shown(self.name))
        if self.must_type_name and self.cleaned_data.get("confirm", "").strip() not in names:
            self.add_error("confirm", f"Type the name {shown(self.name)} to apply this.")
