"""Run the migrations and create the first login, in one process, because starting Django takes half a second."""

from __future__ import annotations

import os
import sys

import django
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from broker.conf import EXIT_SETTING_INVALID, SettingInvalid
from broker.core.counted import counted
from broker.database_version import foreign_database


def main() -> int:
    """Bring the database up to date, and print one line for each change. Safe to repeat. Return the exit code.

    If a setting is wrong, or another version of Vela has migrated the database, change nothing, say so on standard
    error, and return 78.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        django.setup()
    except SettingInvalid as error:
        return _refuse(f"vela: {error}")
    if refusal := foreign_database():
        return _refuse(refusal)
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        call_command("migrate", interactive=False, verbosity=0)
        sys.stdout.write(f"database: {counted(len(pending), 'migration', 'migrations')} applied\n")
    call_command("createadmin")
    return 0


def _refuse(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return EXIT_SETTING_INVALID


if __name__ == "__main__":
    sys.exit(main())
