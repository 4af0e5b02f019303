"""The forms that an operator fills in: one for each kind of act, and one that applies a plan.

A valid form has the `.kind` and `.parameters()` that broker.acts.requests takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from broker.acts.requests import MOST_DRIFT_MESSAGES
from console.marks import shown
from console.words.acts import must_type_name
from console.words.numerals import read_time_ms
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
    "SkipOneForm",
    "act_forms",
]

_MOST = 10**12


class ActForm(forms.Form):
    """The form that describes one kind of act."""

    kind: ClassVar[str]
    heading: ClassVar[str]
    lead: ClassVar[str]
    template: ClassVar[str]

    def parameters(self) -> dict[str, Any]:
        """Return the act's parameters. Only for a valid form."""
        return {}


class RewindForm(ActForm):
    """Move back by a length of time (a preset button) or by a number of messages."""

    kind = "reset"
    heading = "Rewind"
    lead = "Deliver messages again that this subscription has already acked."
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
        """Require one of the two."""
        given = super().clean() or {}
        back = given.get("back") or ""
        if back and back not in self.PRESETS:
            raise ValidationError("Choose one of the lengths of time shown.")
        if not back and not given.get("messages") and "messages" not in self.errors:
            self.add_error("messages", "Say how many messages to go back.")
        return given

    def parameters(self) -> dict[str, Any]:
        """Return a time if a preset button was pressed, else a number of messages."""
        back = self.cleaned_data["back"]
        if back:
            return {"to": "back_time", "back_ms": self.PRESETS[back][1]}
        return {"to": "shift", "messages": -self.cleaned_data["messages"]}


class ResetForm(ActForm):
    """Move to the beginning, the end, a time or a message id."""

    kind = "reset"
    heading = "Reset"
    lead = "Put the cursor at an exact place, forward or back."
    template = "console/forms/reset.html"

    to = forms.ChoiceField(
        choices=[("earliest", ""), ("latest", ""), ("time", ""), ("id", "")],
        error_messages={"required": "Choose a place.", "invalid_choice": "Choose a place."},
    )
    time = forms.CharField(required=False)
    id = forms.CharField(required=False)
    start = forms.ChoiceField(required=False, choices=[("at", ""), ("after", "")])

    def clean_time(self) -> int | None:
        """Read ISO 8601, UTC unless it has an offset, into milliseconds since 1970."""
        text = self.cleaned_data["time"].strip()
        if not text:
            return None
        try:
            return read_time_ms(text)
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean_id(self) -> str:
        """Check the form ledger:entry[:partition[:batch index]]. The act checks that the topic has it."""
        text: str = self.cleaned_data["id"].strip()
        return _message_id(text) if text else ""

    def clean(self) -> dict[str, Any]:
        """Require the field that the chosen place needs."""
        given = super().clean() or {}
        if given.get("to") == "time" and given.get("time") is None and "time" not in self.errors:
            self.add_error("time", "Give the time.")
        if given.get("to") == "id" and not given.get("id") and "id" not in self.errors:
            self.add_error("id", "Give the message id.")
        return given

    def parameters(self) -> dict[str, Any]:
        """Return only what the chosen place needs."""
        given = self.cleaned_data
        match given["to"]:
            case "time":
                return {"to": "time", "time_ms": given["time"]}
            case "id":
                return {"to": "id", "id": given["id"], "inclusive": given["start"] != "after"}
            case end:
                return {"to": end}


def _message_id(text: str) -> str:
    try:
        return str(MessageId.parse(text.strip()))
    except InvalidMessageId:
        raise ValidationError("Write the message id as ledger:entry, for example 12:4071.") from None


class SkipForm(ActForm):
    """Skip the next N messages."""

    kind = "skip"
    heading = "Skip messages"
    lead = "Skip the next messages: they count as acked and are never delivered."
    template = "console/forms/skip.html"

    messages = forms.IntegerField(
        min_value=1,
        max_value=_MOST,
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
        return _message_id(self.cleaned_data["id"])

    def parameters(self) -> dict[str, Any]:
        """Return the message id."""
        return {"id": self.cleaned_data["id"]}


class ClearForm(ActForm):
    """Skip the whole backlog."""

    kind = "clear"
    heading = "Clear the backlog"
    lead = "Skip every message that waits now: they count as acked and are never delivered."
    template = "console/forms/clear.html"


class PauseForm(ActForm):
    """Stop delivery."""

    kind = "pause"
    heading = "Pause"
    lead = "Deliver nothing until you resume the subscription. Consumers stay connected and can ack."
    template = "console/forms/clear.html"


class ResumeForm(ActForm):
    """Start delivery again."""

    kind = "resume"
    heading = "Resume"
    lead = "Deliver again after a pause."
    template = "console/forms/clear.html"


class RedeliverForm(ActForm):
    """Deliver one consumer's unacked messages again."""

    kind = "redeliver"
    heading = "Redeliver"
    lead = "Take back the messages that a consumer has not acked, and deliver them again now."
    template = "console/forms/consumer.html"

    consumer = forms.CharField(max_length=1000, error_messages={"required": "Name the consumer."})

    def parameters(self) -> dict[str, Any]:
        """Return the consumer's name."""
        return {"consumer": self.cleaned_data["consumer"]}


class DisconnectForm(RedeliverForm):
    """Close one consumer."""

    kind = "disconnect"
    heading = "Disconnect"
    lead = "Close a consumer. Its unacked messages go to the others. Most clients reconnect by themselves."


act_forms: dict[str, type[ActForm]] = {
    "rewind": RewindForm,
    "reset": ResetForm,
    "skip": SkipForm,
    "skip_one": SkipOneForm,
    "clear": ClearForm,
    "pause": PauseForm,
    "resume": ResumeForm,
    "redeliver": RedeliverForm,
    "disconnect": DisconnectForm,
}


class ApplyForm(forms.Form):
    """The last step: a reason, the drift to allow, and a name to type if many messages repeat or some are lost."""

    reason = forms.CharField(required=False, max_length=500)
    allowed_drift_messages = forms.IntegerField(required=False, min_value=0, max_value=MOST_DRIFT_MESSAGES)
    confirm = forms.CharField(required=False)

    def __init__(self, *args: Any, plan: Mapping[str, Any] | None, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = name  # of the subscription, or of the topic if the act has none
        self._plan = plan
        self.must_type_name = must_type_name(plan)

    def clean(self) -> None:
        """Compare the typed name, if the plan and the drift that is allowed require one."""
        self.must_type_name = must_type_name(self._plan, self.cleaned_data.get("allowed_drift_messages"))
        # The page shows invisible characters as marks, so a name typed with the marks counts too.
        names = (self.name, shown(self.name))
        if self.must_type_name and self.cleaned_data.get("confirm", "").strip() not in names:
            self.add_error("confirm", f"Type the name {shown(self.name)} to apply this act.")
