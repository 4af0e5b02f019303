"""The forms of saved views."""

from __future__ import annotations

from typing import Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.marks import shown
from console.saved_views.lists import MOST_PATH

__all__ = ["NameForm", "SaveForm"]

_MOST_NAME: Final = 80
_MOST_GIVEN: Final = 100_000  # Longest query in characters, including parameters that are not saved


class NameForm(forms.Form):
    """The name of a view."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=_MOST_NAME,
        error_messages={
            "required": gettext_lazy("Give a name."),
            "max_length": format_lazy(gettext_lazy("At most {most} characters."), most=_MOST_NAME),
        },
    )

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if shown(name) != name:
            raise ValidationError(
                _(
                    "Use only visible characters: no line breaks, and no characters that set the text direction."
                )
            )
        return name


class SaveForm(NameForm):
    """A view to save."""

    path = forms.CharField(label=gettext_lazy("List"), max_length=MOST_PATH)
    query = forms.CharField(
        label=gettext_lazy("Filters"), required=False, max_length=_MOST_GIVEN, strip=False
    )
    share = forms.BooleanField(label=gettext_lazy("Share"), required=False)
    default = forms.BooleanField(label=gettext_lazy("Default"), required=False)
