"""The forms that create subscriptions, create bookmarks and delete bookmarks."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms import ActForm, PlaceForm

__all__ = ["CreateBookmarkForm", "CreateSubscriptionForm", "DeleteBookmarkForm"]

_DAY_MS = 24 * 3600 * 1000
_MOST_DAYS = 36_600
_NAMELESS = {"required": gettext_lazy("Give it a name.")}


class CreateSubscriptionForm(PlaceForm):
    """Create a subscription."""

    kind = "create_subscription"
    heading = gettext_lazy("Create subscription")
    lead = gettext_lazy(
        "Create a subscription before its first consumer connects. It keeps the messages after the chosen"
        " place for that consumer."
    )
    template = "console/forms/new_place.html"
    fields_above = ("name", "type")

    name = forms.CharField(label=gettext_lazy("Name"), strip=False, error_messages=_NAMELESS)
    type = forms.ChoiceField(
        label=gettext_lazy("Type"),
        help_text=gettext_lazy("until its first consumer connects; then that consumer's type applies"),
        choices=[(each, each) for each in ("Shared", "Exclusive", "Failover", "Key_Shared")],
    )

    def parameters(self) -> dict[str, Any]:
        return {"name": self.cleaned_data["name"], "type": self.cleaned_data["type"], **self.place()}


class CreateBookmarkForm(PlaceForm):
    """Create a bookmark."""

    kind = "create_bookmark"
    heading = gettext_lazy("Create bookmark")
    lead = gettext_lazy(
        "Name a place, so that you can reset cursors to it later. The messages after the place stay until"
        " the bookmark expires."
    )
    template = "console/forms/new_place.html"
    fields_above = ("name", "keep_days")
    without_bookmark = True  # The broker refuses to place a bookmark at another bookmark

    name = forms.CharField(label=gettext_lazy("Name"), strip=False, error_messages=_NAMELESS)
    keep_days = forms.IntegerField(
        label=gettext_lazy("Days to keep the messages after it"),
        help_text=gettext_lazy("0: until you delete the bookmark"),
        min_value=0,
        max_value=_MOST_DAYS,
        initial=7,
        error_messages={
            "required": gettext_lazy("Give a number of days."),
            "invalid": gettext_lazy("Give a whole number of days."),
            "min_value": gettext_lazy("0 or more days."),
            "max_value": format_lazy(gettext_lazy("At most {most:,} days."), most=_MOST_DAYS),
        },
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        if given.get("to") == "bookmark":
            self.add_error("to", _("Choose a place that is not a bookmark."))
        return given

    def parameters(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {"name": given["name"], "keep_ms": given["keep_days"] * _DAY_MS, **self.place()}


class DeleteBookmarkForm(ActForm):
    """Delete a bookmark."""

    kind = "delete_bookmark"
    heading = gettext_lazy("Delete bookmark")
    lead = gettext_lazy(
        "Delete the bookmark. Retention applies again to the messages that the bookmark kept."
    )
    template = "console/forms/fields.html"

    name = forms.CharField(
        label=gettext_lazy("Bookmark"),
        strip=False,
        error_messages={"required": gettext_lazy("Name the bookmark to delete.")},
    )

    def parameters(self) -> dict[str, Any]:
        return {"name": self.cleaned_data["name"]}
