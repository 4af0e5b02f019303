"""The forms of saved views."""

from __future__ import annotations

from typing import Final

from django import forms
from django.core.exceptions import ValidationError

from console.marks import shown
from console.saved_views.lists import MOST_PATH

__all__ = ["NameForm", "SaveForm"]

_MOST_NAME: Final = 80
_MOST_GIVEN: Final = 100_000  # of a query string before it is written anew


class NameForm(forms.Form):
    """The name of a view."""

    name = forms.CharField(
        label="Name",
        max_length=_MOST_NAME,
        error_messages={"required": "Give a name.", "max_length": f"At most {_MOST_NAME} characters."},
    )

    def clean_name(self) -> str:
        """Refuse a name that a page could not show as it is."""
        name = str(self.cleaned_data["name"])
        if shown(name) != name:
            raise ValidationError("Use characters that can be seen: no line break, no text direction.")
        return name


class SaveForm(NameForm):
    """What to save, and for whom."""

    path = forms.CharField(label="List", max_length=MOST_PATH)
    query = forms.CharField(label="Filters", required=False, max_length=_MOST_GIVEN, strip=False)
    share = forms.BooleanField(label="Share", required=False)
    default = forms.BooleanField(label="Default", required=False)
