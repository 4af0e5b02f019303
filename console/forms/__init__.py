"""Forms that plan an act on a subscription, and the form that applies a plan.

An act is a change that the broker makes on request.
"""

from __future__ import annotations

from typing import Final

from console.forms.apply import ApplyForm
from console.forms.consumers import DisconnectForm, RedeliverForm
from console.forms.delivery import DeleteSubscriptionForm, PauseForm, ResumeForm
from console.forms.form import ActForm, posted
from console.forms.letters import RedriveForm, SendToDeadLettersForm
from console.forms.places import PlaceForm, ResetForm, RewindForm
from console.forms.skips import ClearForm, SkipForm, SkipOneForm

__all__ = [
    "ActForm",
    "ApplyForm",
    "ClearForm",
    "DeleteSubscriptionForm",
    "DisconnectForm",
    "PauseForm",
    "PlaceForm",
    "RedeliverForm",
    "RedriveForm",
    "ResetForm",
    "ResumeForm",
    "RewindForm",
    "SendToDeadLettersForm",
    "SkipForm",
    "SkipOneForm",
    "act_forms",
    "posted",
]


act_forms: Final[dict[str, type[ActForm]]] = {
    "rewind": RewindForm,
    "reset": ResetForm,
    "skip": SkipForm,
    "skip_one": SkipOneForm,
    "send_to_dead_letters": SendToDeadLettersForm,
    "clear": ClearForm,
    "redrive": RedriveForm,
    "pause": PauseForm,
    "resume": ResumeForm,
    "redeliver": RedeliverForm,
    "disconnect": DisconnectForm,
    "delete": DeleteSubscriptionForm,
}
"""The forms by their names in URLs."""
