"""Run the migrations and create the first login, in one process, because starting Django takes half a second."""

from __future__ import annotations

import os
import sys

import django
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from broker.database_version import foreign_database


def main() -> None:
    """Bring the database up to date, and print one line for each change. Safe to repeat.

    If another version of Vela has migrated the database, change nothing and exit with a sentence that says so.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    if refusal := foreign_database():
        sys.exit(refusal)
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        call_command("migrate", interactive=False, verbosity=0)
        sys.stdout.write(f"database: {len(pending)} migrations applied\n")
    call_command("createadmin")


if __name__ == "__main__":
    main()
