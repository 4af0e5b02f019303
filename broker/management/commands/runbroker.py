"""`manage.py runbroker` runs the broker in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from broker.conf import EXIT_SETTING_INVALID, SettingInvalid, broker_settings
from broker.database_version import foreign_database, old_database
from broker.process.broker import Broker
from broker.process.serving import CannotStart, run_broker
from broker.storage.conninfo import conninfo
from broker.storage.queries import query

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    """Runs the broker.

    Exits with 78 if a setting cannot be used, or if the database has migrations that this version of Vela lacks. Exits
    with 75 if another broker uses the database, and with 1 after other failures.
    """

    help = "Run the broker: Pulsar's binary protocol, the WebSocket API, /metrics, /healthz and /readyz."
    requires_system_checks = ()  # The checks would slow down every start

    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            settings = broker_settings()
            if settings.check_exposure(settings.bind):
                logger.warning(
                    "VELA_AUTHENTICATION is none: everybody who reaches %s may publish and consume everything",
                    settings.bind,
                )
            _refuse_unusable_database(settings.read_role)
            run_broker(
                lambda: Broker(
                    settings,
                    conninfo(),
                    read_role=settings.read_role,
                    database_dir=getattr(django_settings, "EMBEDDED_DATABASE_DIR", None),
                )
            )
        except SettingInvalid as error:
            raise CommandError(str(error), returncode=EXIT_SETTING_INVALID) from None
        except CannotStart as error:
            raise CommandError(str(error), returncode=error.exit_code) from None


def _refuse_unusable_database(read_role: str) -> None:
    # Ignore database errors here, because the broker itself reports them.
    with closing(connection), suppress(DatabaseError):
        if refusal := foreign_database():
            raise CannotStart(refusal, exit_code=EXIT_SETTING_INVALID)
        if refusal := old_database():
            # Exit with 1 and not 78, so that systemd starts the broker again. The start succeeds after an operator has
            # migrated the database.
            raise CannotStart(refusal, exit_code=1)
        if read_role and not _has_role(read_role):
            raise SettingInvalid(
                f"VELA_READ_ROLE is {read_role!r}: it takes a role that the PostgreSQL server has; create it, or"
                " leave the setting empty"
            )


def _has_role(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(query("topics", "has_role").decode(), (name,))
        return bool(cursor.fetchone()[0])
