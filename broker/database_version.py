"""Check that the database fits this version of Vela."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Sequence
from typing import Any

from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.recorder import MigrationRecorder

from broker import migrations

__all__ = ["foreign_database", "old_database"]


def foreign_database(alias: str = DEFAULT_DB_ALIAS) -> str | None:
    """Return an error message if the database has broker migrations that this version lacks.

    Django would consider the database up to date, but queries could fail.
    """
    unknown = sorted(_applied(alias) - _known())
    if not unknown:
        return None
    return (
        f"Another version of Vela migrated this database (this one does not know {unknown[-1]}): run that version, or"
        " start on an empty database, with another DATABASE_URL or, for the embedded server, another VELA_DATA_DIR."
    )


def old_database(alias: str = DEFAULT_DB_ALIAS) -> str | None:
    """Return an error message if the database lacks broker migrations of this version."""
    missing = sorted(_known() - _applied(alias))
    if not missing:
        return None
    return (
        f"Vela's tables are older than this version (they lack broker.{missing[0]}): run manage.py migrate, then start"
        " again."
    )


def _known() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(migrations.__path__)}


def _applied(alias: str) -> set[str]:
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    return {name for app, name in applied if app == "broker"}


@checks.register(checks.Tags.database)
def check_database(
    *, databases: Sequence[str] | None = None, **_kwargs: Any
) -> Iterable[checks.CheckMessage]:
    """Stop `manage.py migrate` if the database has migrations that this version lacks."""
    if DEFAULT_DB_ALIAS not in (databases or ()):
        return []
    refusal = foreign_database()
    return [checks.Error(refusal, id="broker.E001")] if refusal else []
