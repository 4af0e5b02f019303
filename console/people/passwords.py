"""Django's check of the length of a new password, in words that the console translates."""

from __future__ import annotations

from django.contrib.auth import password_validation
from django.utils.translation import gettext as _

__all__ = ["MinimumLengthValidator"]


class MinimumLengthValidator(password_validation.MinimumLengthValidator):
    """Django's validator with a sentence of Vela's, because Django's sentence has no Chinese translation."""

    def get_error_message(self) -> str:
        """Return why a password is refused."""
        return _("This password is too short. It must contain at least {count} characters.").format(
            count=self.min_length
        )
