"""The forms that stop and start delivery to a subscription, and delete the subscription."""

from __future__ import annotations

from typing import Any

from django import forms

from console.forms.form import ActForm

__all__ = ["DeleteSubscriptionForm", "PauseForm", "ResumeForm"]


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


class DeleteSubscriptionForm(ActForm):
    """Delete the subscription."""

    kind = "delete_subscription"
    heading = "Delete"
    lead = "Delete the subscription with its cursor. The topic keeps its messages."
    template = "console/forms/fields.html"

    force = forms.BooleanField(
        required=False,
        label="Disconnect its consumers",
        help_text="without this, the broker refuses while a consumer is connected",
    )

    def parameters(self) -> dict[str, Any]:
        """Return whether to close consumers."""
        return {"force": self.cleaned_data["force"]}
