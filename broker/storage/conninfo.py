"""The connection string of the database, from Django's settings."""

from __future__ import annotations

from django.conf import settings
from psycopg import pq
from psycopg.conninfo import make_conninfo

from broker.conf import broker_settings

__all__ = ["conninfo"]


def conninfo() -> str:
    """Return the connection string of the default database."""
    database = settings.DATABASES["default"]
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = dict(database.get("OPTIONS", {}))
    role = given.pop("assume_role", None)  # libpq does not know this option of Django
    if role:
        given["options"] = f"{given.get('options') or ''} -c role={_escaped(role)}".strip()
    options = {
        key: str(value)
        for key, value in given.items()
        if isinstance(value, str) or (key in known and value is not None)
    }
    parts = {
        "dbname": broker_settings().database_name or database["NAME"],
        "host": database.get("HOST") or None,
        "port": str(database.get("PORT") or "") or None,
        "user": database.get("USER") or None,
        "password": database.get("PASSWORD") or None,
        **options,
    }
    return make_conninfo("", **{key: value for key, value in parts.items() if value is not None})


def _escaped(value: str) -> str:
    """Escape a value for libpq's `options`, which are separated by spaces."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
