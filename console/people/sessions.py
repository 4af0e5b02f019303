"""Delete expired sessions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver

__all__ = ["delete_expired"]


@receiver(user_logged_in)
def delete_expired(**_: Any) -> None:
    """Delete expired sessions at each login."""
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
