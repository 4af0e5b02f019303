"""The forms that redeliver messages or disconnect consumers."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms.form import ActForm

__all__ = ["DisconnectForm", "RedeliverForm"]

_MOST_KEY: Final = 2**63 - 1  # The largest bigint in PostgreSQL


class RedeliverForm(ActForm):
    """The form that redelivers the unacked messages of one consumer, or of all consumers with the same name."""

    kind = "redeliver"
    heading = gettext_lazy("Redeliver")
    lead = gettext_lazy("Take back the messages that a consumer has not acked, and deliver them again now.")
    template = "console/forms/consumer.html"

    # The broker keeps leading and trailing spaces in a consumer's name.
    consumer = forms.CharField(required=False, max_length=1024, strip=False)
    consumer_key = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=_MOST_KEY,
        error_messages={
            "invalid": gettext_lazy(
                "Write the number as the list of consumers shows it, or leave this empty."
            )
        },
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not given.get("consumer") and given.get("consumer_key") is None and not self.errors:
            self.add_error("consumer", _("Name the consumer."))
        return given

    def parameters(self) -> dict[str, Any]:
        key = self.cleaned_data["consumer_key"]
        return {"consumer": self.cleaned_data["consumer"]} if key is None else {"consumer_key": key}


class DisconnectForm(RedeliverForm):
    """The form that closes one consumer, or all consumers with the same name."""

    kind = "disconnect"
    heading = gettext_lazy("Disconnect")
    lead = gettext_lazy(
        "Close a consumer. Its unacked messages go to other consumers. Most clients reconnect by themselves."
    )

    reason = forms.CharField(required=False, max_length=500)

    def parameters(self) -> dict[str, Any]:
        reason = self.cleaned_data["reason"]
        return super().parameters() | ({"reason": reason} if reason else {})
