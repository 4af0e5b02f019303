"""Distinguish errors of an unavailable database from errors of a refused statement.

psycopg's classes do not distinguish them: an index row that is too long is an OperationalError, like a lost connection.
"""

from __future__ import annotations

from typing import Final

import psycopg

__all__ = ["is_away"]

_SQLSTATES: Final = (
    "08",  # the connection
    "28",  # a login, refused while somebody changes the password
    "40",  # a deadlock or another conflict that rolled the statement back
    "53",  # no disk, memory or connection left
    "55006",  # an object in use
    "55P03",  # a lock in use
    "57P",  # the server stops, starts, or ended the session
    "58",  # an input or output error of the server
)


def is_away(error: BaseException) -> bool:
    """Return whether the database cannot be reached or cannot work now, so that the same statement may succeed later.

    False for an error that concerns the statement itself: repeated, it would fail in the same way.
    """
    if isinstance(error, psycopg.InterfaceError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_SQLSTATES)
