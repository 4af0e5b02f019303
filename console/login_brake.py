"""The brake on guessing passwords. django-axes counts the failures; these are Vela's limits and answers."""

from __future__ import annotations

from typing import Any, Final

from axes.handlers.database import AxesDatabaseHandler
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.api.problems import Problem
from console.blocks import frame

__all__ = ["FailureCounts", "refused"]

ADDRESS_SHARE: Final = (
    10  # so many times the failures of one name may come from one address, whatever the names
)

_TOO_MANY: Final = (
    "Too many passwords were wrong. Try again in {} minutes, from another address, or ask an administrator:"
    " `manage.py axes_reset_username NAME` and `manage.py axes_reset_ip ADDRESS` lift this at once."
)


class FailureCounts(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """Counts by name and address, and by address alone with a limit of its own. A name alone is never locked."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """The failures that count against AXES_FAILURE_LIMIT."""
        of_name, of_address = (
            attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0
            for attempts in self.get_user_attempts(request, credentials)
        )
        return max(of_name, of_address // ADDRESS_SHARE)

    def reset_user_attempts(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Forget the failures of somebody who has logged in, but not those of other names at the same address."""
        deleted, _ = self.filter_user_attempts(request, credentials)[0].delete()
        return int(deleted)


def refused(request: HttpRequest, *_: object) -> HttpResponse:
    """The answer to a login that is not even looked at."""
    cool_off_s = int(settings.AXES_COOLOFF_TIME.total_seconds())
    minutes, retry_after = cool_off_s // 60, str(cool_off_s)
    if request.path.startswith("/api/"):
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
