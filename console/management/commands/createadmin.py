"""`manage.py createadmin`: the first person who may log in."""

from __future__ import annotations

import os
import secrets
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand

NAME = "admin"


class Command(BaseCommand):
    """Make `admin` unless it exists. Safe to repeat: an existing admin keeps the password."""

    help = "Make the user admin if there is none, with VELA_ADMIN_PASSWORD or a random password that is shown once."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Print the password only if it was invented here."""
        if User.objects.filter(username=NAME).exists():
            return
        given = os.environ.get("VELA_ADMIN_PASSWORD")
        password = given or secrets.token_urlsafe(12)
        User.objects.create_superuser(NAME, password=password)
        shown = "from VELA_ADMIN_PASSWORD" if given else f"{password}   (shown once)"
        self.stdout.write(f"console login: {NAME}, password {shown}")
