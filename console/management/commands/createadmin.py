"""`manage.py createadmin`: create the user `admin`."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand

from broker.conf import broker_settings

NAME = "admin"


class Command(BaseCommand):
    """Create the user `admin`. An existing user stays unchanged."""

    help = "Create the user admin, if there is none, with VELA_ADMIN_PASSWORD or a random password that is shown once."
    requires_system_checks = ()

    def handle(self, *_args: Any, **_options: Any) -> None:
        if User.objects.filter(username=NAME).exists():
            return
        given = broker_settings().admin_password
        password = given or secrets.token_urlsafe(12)
        User.objects.create_superuser(NAME, password=password)
        shown = "from VELA_ADMIN_PASSWORD" if given else f"{password}   (shown once)"
        self.stdout.write(f"console login: {NAME}, password {shown}")
