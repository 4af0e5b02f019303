"""The form for the policies of a namespace or a topic. An empty field inherits its value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BoundField
from django.utils.translation import gettext as _

from broker.topics.policies_in_force import DescribedPolicies, PolicyInForce
from console.words.policies import grouped

__all__ = ["PolicyForm"]

_LONGEST = 100


class PolicyForm(forms.Form):
    """The policies of one namespace or topic."""

    version = forms.CharField(required=False)

    def __init__(self, *args: Any, described: DescribedPolicies, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._policies = {each.name: each for each in described.policies if each.can_be_set}
        document = {name: each.own for name, each in self._policies.items() if each.own is not None}
        self.current = hashlib.sha256(json.dumps(document).encode()).hexdigest()[:16]
        for name, each in self._policies.items():
            self.fields[name] = _field(each)
            self.initial.setdefault(name, each.own_words)

    def groups(self) -> Iterator[tuple[str, list[tuple[PolicyInForce, BoundField]]]]:
        """Yield each heading with its policies and their fields."""
        for heading, members in grouped(self._policies.values()):
            yield heading, [(each, self[each.name]) for each in members]

    def clean(self) -> None:
        if self.cleaned_data.get("version", "") not in ("", self.current):
            raise ValidationError(
                _("Somebody changed these policies after you opened this page. Open it again to see them.")
            )
        for name, text in self._given().items():
            if text and (complaint := self._policies[name].complaint(text)):
                self.add_error(name, complaint)
        if not self.errors and not any(self.parameters().values()):
            raise ValidationError(_("Nothing changes: every value is as it was."))

    def parameters(self) -> dict[str, Any]:
        """Return the policies to set and to unset. Call this only for a form without errors."""
        given = self._given()
        changed = {
            name: text for name, text in given.items() if text and not self._policies[name].is_own(text)
        }
        removed = [name for name, text in given.items() if not text and self._policies[name].own is not None]
        return {"set": changed, "unset": ",".join(removed)}

    def _given(self) -> dict[str, str]:
        return {
            name: self.cleaned_data[name].strip()
            for name in self._policies
            if name in self.cleaned_data and name in self.data
        }


def _field(policy: PolicyInForce) -> forms.Field:
    if not policy.choices:
        return forms.CharField(required=False, max_length=_LONGEST)
    choices = [(each, each) for each in policy.choices]
    return forms.ChoiceField(
        required=False,
        choices=[("", _("not set: {words}").format(words=policy.above_words)), *choices],
        error_messages={
            "invalid_choice": _("Choose one of {choices}.").format(choices=", ".join(policy.choices))
        },
    )
