"""Limit password guessing by counting the failed logins that django-axes stores."""

from __future__ import annotations

from typing import Any, Final

from axes.handlers.database import AxesDatabaseHandler
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.addresses import is_api_path
from console.api.problems import Problem
from console.blocks import frame

__all__ = ["FailureCounts", "refused"]

_MOST_CHARACTERS: Final = 255  # Length of the column for user names
# The limit for an address alone is this many times the limit for one name at an address.
ADDRESS_SHARE: Final = 10

_TOO_MANY: Final = (
    "Too many failed logins. Try again in {} minutes or from another address. An administrator can lift the block"
    " at once with `manage.py axes_reset_username NAME` or `manage.py axes_reset_ip ADDRESS`."
)


class FailureCounts(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """Counts failed logins for each name at an address, and for each address alone.

    A name is blocked only at the address of its failed logins. If it were blocked everywhere, anybody could lock a user
    out.
    """

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        of_name, of_address = (
            attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0
            for attempts in self.get_user_attempts(request, credentials)
        )
        return max(of_name, of_address // ADDRESS_SHARE)

    def user_login_failed(
        self, sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **more: object
    ) -> None:
        name = credentials.get("username")
        if isinstance(name, str):
            credentials = {**credentials, "username": name[:_MOST_CHARACTERS]}
        super().user_login_failed(sender, credentials, request, **more)

    def reset_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Forget the failures of this name at this address."""
        deleted, _ = self.filter_user_attempts(request, credentials)[0].delete()
        return int(deleted)


def refused(request: HttpRequest, *_: object) -> HttpResponse:
    """Answer a blocked attempt with 429."""
    cool_off_s = int(settings.AXES_COOLOFF_TIME.total_seconds())
    minutes, retry_after = cool_off_s // 60, str(cool_off_s)
    if is_api_path(request.path):
        return Problem(
            429,
            "TooManyFailures",
            _TOO_MANY.format(minutes),
            retriable=True,
            headers={"Retry-After": retry_after},
        ).response()
    context = {**frame(request), "minutes": minutes}
    response = render(request, "console/pages/too_many_failures.html", context, status=429)
    response["Retry-After"] = retry_after
    return response
