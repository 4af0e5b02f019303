"""Errors as RFC 9457 problem documents with Vela's `code` and `retriable`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse

__all__ = ["Problem", "no_such_address"]


class Problem(Exception):
    """An error to answer with. `more` are further members of the document."""

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
    """Answer an address that no operation has, or whose ids and names cannot exist."""
    return Problem(
        404, "NotFound", f"there is no {request.path}; openapi.json lists the addresses"
    ).response()


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
