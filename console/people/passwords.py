"""Django's check of the length of a new password, with a translated error."""

from __future__ import annotations

from django.contrib.auth import password_validation
from django.utils.translation import gettext as _

__all__ = ["MinimumLengthValidator"]


class MinimumLengthValidator(password_validation.MinimumLengthValidator):
    """Replaces Django's error text, which has no Chinese translation."""

    def get_error_message(self) -> str:
        return _("This password is too short. It must contain at least {count} characters.").format(
            count=self.min_length
        )
