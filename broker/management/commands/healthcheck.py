"""`manage.py healthcheck` exits with 0 if the chosen processes are healthy."""

from __future__ import annotations

import http.client
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser

from broker.conf import SettingInvalid, broker_settings
from broker.listening.probe import ask_ready
from broker.storage.log import sweep

ROLES = ("broker", "console", "worker", "beat")
_TICKS_MISSED = 10  # Allows for a restart of PostgreSQL
_LEAST_AGE_S = 15.0


class Command(BaseCommand):
    help = "Check one role, or all of them: broker, console, worker, beat."
    requires_system_checks = []  # noqa: RUF012 - Django's own type

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("role", nargs="?", choices=[*ROLES, "all"], default="all")

    def handle(self, *args: Any, **options: Any) -> None:
        roles = ROLES if options["role"] == "all" else (options["role"],)
        try:
            for role in roles:
                _check(role)
        except (SettingInvalid, psycopg.Error, OSError) as error:
            raise CommandError(f"not healthy: {error}") from error
        self.stdout.write(f"{', '.join(roles)}: healthy")


def _check(role: str) -> None:
    settings = broker_settings()
    if role == "broker":
        _ready(role, *settings.broker_probe)
    elif role == "console":
        _ready(role, *settings.console_probe)
    else:
        age_s = sweep.heartbeat_age_s(role)
        limit_s = max(_LEAST_AGE_S, _TICKS_MISSED * settings.tick_ms / 1000)
        if age_s is None or age_s > limit_s:
            last = "no tick yet" if age_s is None else f"the last tick was {age_s:.0f} s ago"
            raise CommandError(f"{role}: {last}; a healthy {role} has one in the last {limit_s:.0f} s")


def _ready(role: str, port: int, has_tls: bool) -> None:
    try:
        status, text = ask_ready(broker_settings().local_host, port, has_tls=has_tls)
    except http.client.HTTPException as error:
        raise CommandError(f"{role}: port {port} does not answer in HTTP ({error})") from None
    if status != http.client.OK:
        raise CommandError(f"{role}: /readyz answers {status} {text}")
