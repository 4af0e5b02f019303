"""Tell whether an error means that the database is unavailable, or that it refuses a statement.

psycopg's classes do not tell this: an index row that is too long is an OperationalError, and so is a lost connection.
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
    "57P",  # the server stops or starts, or it ended the session
    "58",  # an input or output error of the server
)


def is_away(error: BaseException) -> bool:
    """Return whether the database cannot be reached or cannot work now, so that the same statement may succeed later.

    Return False for any other error, such as a refused statement.
    """
    if isinstance(error, psycopg.InterfaceError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_SQLSTATES)
