"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, JsonResponse

__all__ = ["Problem", "database_problem", "is_database_away", "no_such_address"]


class Problem(Exception):
    """An exception that is answered with a problem document."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        retriable: bool = False,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self._body = {
            "type": "about:blank",
            "title": _TITLES.get(status, "Error"),
            "status": status,
            "detail": detail,
            "code": code,
            "retriable": retriable,
            **more,
        }
        self._headers = headers or {}

    def response(self) -> JsonResponse:
        """Return the document as a response."""
        return JsonResponse(
            self._body, status=self.status, content_type="application/problem+json", headers=self._headers
        )


def no_such_address(request: HttpRequest) -> JsonResponse:
    """Answer a request for an address that does not exist."""
    return Problem(
        404, "NotFound", f"there is no {request.path}; openapi.json lists the addresses"
    ).response()


def is_database_away(error: BaseException | None) -> bool:
    """Return whether the database was unreachable or failed for a temporary reason.

    The result is False for a statement that was cancelled because it took too long.
    """
    return isinstance(error, _AWAY) and not isinstance(error.__cause__ or error, psycopg.errors.QueryCanceled)


def database_problem(error: BaseException | None) -> Problem:
    """Return a 503 problem if the same request may succeed later, else a 500 problem."""
    if is_database_away(error):
        return Problem(503, "PersistenceError", "the database did not answer; try again", retriable=True)
    return Problem(500, "InternalError", "the server failed; the console's log has the reason")


_AWAY: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
_TITLES = {
    400: "Bad request",
    401: "Not logged in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Not JSON",
    422: "Refused",
    429: "Too many requests",
    500: "Failed",
    503: "Not available",
}
