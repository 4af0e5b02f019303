"""The form of a page that follows a topic."""

from __future__ import annotations

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy

from console.messages.form import FilterForm
from console.tail.since import MOST_CHARACTERS, Since, read_since

__all__ = ["FollowForm"]


class FollowForm(FilterForm):
    """The filters and `since`, which says how far the page has read."""

    since = forms.CharField(label=gettext_lazy("Newer"), required=False, max_length=MOST_CHARACTERS)

    def clean_since(self) -> Since | None:
        text = self.cleaned_data["since"]
        try:
            return read_since(text) if text else None
        except ValueError as error:
            raise ValidationError(str(error)) from None
