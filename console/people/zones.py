"""The time zone in which a user reads and writes times. `/api/v1` has UTC for everybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from console.models import Preferences

__all__ = ["TimeZones", "set_zone", "zone_names"]

_OLD_NAMES: Final = frozenset(
    ("Etc", "SystemV", "US", "posix", "right")
)  # the list has them under other names


class TimeZones:
    """Middleware: pages use the user's time zone, `/api/v1` uses UTC. It comes after the authentication."""

    sync_capable = True
    async_capable = True

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
    ) -> None:
        self.get_response = get_response
        self._async = iscoroutinefunction(get_response)
        if self._async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._async:
            return self.get_response(request)  # the zone ends with the context of the request
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()

    def process_view(self, request: HttpRequest, view: Callable[..., object], *_: object) -> None:
        """Choose the zone once the user is known. A view without login runs no query for the zone."""
        if request.path.startswith("/api/"):
            timezone.activate(UTC)
        elif getattr(view, "login_required", True) and request.user.is_authenticated:
            timezone.activate(_zone_of(request.user))


@cache
def zone_names() -> tuple[str, ...]:
    """Return the zones that a user can choose: UTC, then places by name."""
    places = (name for name in available_timezones() if "/" in name)
    return ("UTC", *sorted(name for name in places if name.partition("/")[0] not in _OLD_NAMES))


def set_zone(user: AbstractBaseUser, name: str) -> None:
    """Store the zone of a user."""
    Preferences.objects.update_or_create(user_id=user.pk, defaults={"time_zone": name})


def _zone_of(user: AbstractBaseUser) -> tzinfo:
    try:
        name = user.preferences.time_zone  # type: ignore[attr-defined]  # the other side of Preferences.user
    except ObjectDoesNotExist:
        return timezone.get_default_timezone()
    return ZoneInfo(name) if name in zone_names() else timezone.get_default_timezone()
