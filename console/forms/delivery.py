"""The forms that pause, resume or delete a subscription."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from console.forms.form import ActForm

__all__ = ["DeleteSubscriptionForm", "PauseForm", "ResumeForm"]


class PauseForm(ActForm):
    """The form that pauses a subscription."""

    kind = "pause"
    heading = gettext_lazy("Pause")
    lead = gettext_lazy(
        "Deliver nothing until you resume the subscription. Consumers stay connected and can ack."
    )
    template = "console/forms/clear.html"


class ResumeForm(ActForm):
    """The form that resumes a subscription."""

    kind = "resume"
    heading = gettext_lazy("Resume")
    lead = gettext_lazy("Deliver again after a pause.")
    template = "console/forms/clear.html"


class DeleteSubscriptionForm(ActForm):
    """The form that deletes a subscription."""

    kind = "delete_subscription"
    heading = gettext_lazy("Delete")
    lead = gettext_lazy("Delete the subscription with its cursor. The topic keeps its messages.")
    template = "console/forms/fields.html"

    force = forms.BooleanField(
        required=False,
        label=gettext_lazy("Disconnect its consumers"),
        help_text=gettext_lazy("without this, the broker refuses while a consumer is connected"),
    )

    def parameters(self) -> dict[str, Any]:
        return {"force": self.cleaned_data["force"]}
