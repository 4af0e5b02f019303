"""Error messages about passwords and second factors."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop

__all__ = ["NO_FACTOR", "WRONG_CODE", "WRONG_PASSWORD"]

WRONG_CODE: Final = gettext_noop(
    "This code is wrong, too old or used already. The app shows a new one every 30 seconds; if none works, check the"
    " clock of your device."
)
WRONG_PASSWORD: Final = gettext_noop("This is not your password.")
NO_FACTOR: Final = gettext_noop("You have no second factor.")
