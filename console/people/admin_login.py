"""The login form of `/django-admin/`, which cannot ask for a second factor."""

from __future__ import annotations

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from console.people.requirement import AfterPassword, after_password

__all__ = ["PasswordAloneForm"]


class PasswordAloneForm(AdminAuthenticationForm):
    """Lets in only users for whom a password is enough."""

    def confirm_login_allowed(self, user: User) -> None:
        super().confirm_login_allowed(user)
        if after_password(user) is not AfterPassword.LOGIN:
            raise ValidationError(_("You need a second factor: log in at /login, then come back."))
