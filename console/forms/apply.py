"""The form that applies a planned act, such as a reset of a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker.acts.requests import MOST_DRIFT_MESSAGES
from console.marks import shown
from console.words.acts import ENDINGS, loses_messages, must_type_name

__all__ = ["ApplyForm"]


class ApplyForm(forms.Form):
    """The form that applies a planned act."""

    reason = forms.CharField(
        max_length=500,
        error_messages={"required": gettext_lazy("Give a reason: this namespace is protected.")},
    )
    allowed_drift_messages = forms.IntegerField(required=False, min_value=0, max_value=MOST_DRIFT_MESSAGES)
    confirm = forms.CharField(required=False)

    def __init__(
        self,
        *args: Any,
        kind: str,
        plan: Mapping[str, Any] | None,
        name: str,
        needs_reason: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = self.needs_reason = needs_reason
        self.name = name
        self._kind = kind
        self._plan = plan
        self.is_ending = kind in ENDINGS
        self.must_type_name = must_type_name(kind, plan)
        self.is_danger = self.is_ending or loses_messages(plan or {})

    def clean(self) -> None:
        self.must_type_name = must_type_name(
            self._kind, self._plan, self.cleaned_data.get("allowed_drift_messages")
        )
        # The page shows invisible characters as marks, so a name typed with these marks is accepted too.
        names = (self.name, shown(self.name))
        if self.must_type_name and self.cleaned_data.get("confirm", "").strip() not in names:
            self.add_error(
                "confirm", _("Type the name {name} to apply this act.").format(name=shown(self.name))
            )
