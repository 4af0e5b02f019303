"""Distinguish temporary database errors from refused statements.

psycopg raises OperationalError for a lost connection, but also for an index row that is too long.
"""

from __future__ import annotations

from typing import Final

import psycopg

__all__ = ["is_away"]

_SQLSTATES: Final = (
    "08",  # Lost connection
    "28",  # Refused login, for example while somebody changes the password
    "40",  # Deadlock or another conflict that rolled the statement back
    "53",  # No disk space, memory or connections left
    "55006",  # Object in use
    "55P03",  # Lock in use
    "57P",  # The server is starting or stopping, or has ended the session
    "58",  # I/O error on the server
)


def is_away(error: BaseException) -> bool:
    """Return whether the same statement may succeed later."""
    if isinstance(error, psycopg.InterfaceError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_SQLSTATES)
