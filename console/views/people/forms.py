"""The forms about users."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from console.models import Role
from console.people.zones import zone_names

__all__ = ["WRONG", "ActiveForm", "NewUserForm", "OwnPasswordForm", "PasswordForm", "RoleForm", "ZoneForm"]

WRONG = "wrong"
_MOST_PASSWORD = 1024


class PasswordForm(forms.Form):
    """A password. If the field is empty, Vela makes one."""

    password = forms.CharField(
        label=gettext_lazy("Password"),
        required=False,
        strip=False,
        max_length=_MOST_PASSWORD,
        error_messages={"max_length": gettext_lazy("At most 1,024 characters.")},
    )


class NewUserForm(PasswordForm):
    """The name of a new user, the password, and a first role."""

    name = forms.CharField(
        label=pgettext_lazy("person", "Name"),
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        error_messages={
            "required": gettext_lazy("Give the name."),
            "max_length": gettext_lazy("At most 150 characters."),
        },
    )

    pattern = forms.CharField(max_length=600, required=False)
    role = forms.ChoiceField(
        choices=[(role.word, role.label) for role in Role],
        required=False,
        error_messages={"invalid_choice": gettext_lazy("Choose a role.")},
    )

    def clean_name(self) -> str:
        return str(User.normalize_username(self.cleaned_data["name"]))

    def chosen(self) -> tuple[str, Role] | None:
        """Return the pattern and the role, or None if no role was chosen."""
        word: str = self.cleaned_data["role"]
        return (self.cleaned_data["pattern"].strip() or "*", Role[word.upper()]) if word else None


class RoleForm(forms.Form):
    """A pattern of namespaces, and the user's role in these namespaces."""

    pattern = forms.CharField(
        max_length=600,
        error_messages={"required": gettext_lazy("Give a pattern: *, tenant/* or tenant/namespace.")},
    )
    role = forms.ChoiceField(
        choices=[*((role.word, role.label) for role in Role), ("none", gettext_lazy("none"))],
        error_messages={
            "required": gettext_lazy("Choose a role."),
            "invalid_choice": gettext_lazy("Choose a role."),
        },
    )

    def chosen(self) -> Role | None:
        """Return the new role, or None to remove the role."""
        word: str = self.cleaned_data["role"]
        return None if word == "none" else Role[word.upper()]


class ActiveForm(forms.Form):
    """Whether the user may log in."""

    active = forms.ChoiceField(
        choices=[("yes", ""), ("no", "")],
        error_messages={
            "required": gettext_lazy("Say yes or no."),
            "invalid_choice": gettext_lazy("Say yes or no."),
        },
    )


class OwnPasswordForm(forms.Form):
    """The current password, and the new one twice."""

    old = forms.CharField(
        strip=False,
        max_length=_MOST_PASSWORD,
        error_messages={
            "required": gettext_lazy("Give your current password."),
            "max_length": gettext_lazy("This is not your password."),
        },
    )
    new = forms.CharField(
        strip=False,
        max_length=_MOST_PASSWORD,
        error_messages={
            "required": gettext_lazy("Give the new password."),
            "max_length": gettext_lazy("At most 1,024 characters."),
        },
    )
    again = forms.CharField(required=False, strip=False)

    def __init__(self, data: QueryDict | None = None, *, user: User) -> None:
        super().__init__(data)
        self._user = user

    def clean_old(self) -> str:
        old: str = self.cleaned_data["old"]
        if not self._user.check_password(old):
            raise ValidationError(_("This is not your password."), code=WRONG)
        return old

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if "new" in given and given["new"] != given.get("again"):
            self.add_error("again", _("This is not the same password."))
        return given


class ZoneForm(forms.Form):
    """A time zone."""

    zone = forms.CharField(error_messages={"required": gettext_lazy("Choose a time zone.")})

    def clean_zone(self) -> str:
        zone: str = self.cleaned_data["zone"]
        if zone not in zone_names():
            raise ValidationError(_("There is no such time zone: choose one from the list."))
        return zone
