"""A user's time zone and language for the pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC
from zoneinfo import ZoneInfo

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone, translation

from console.addresses import is_api_path
from console.models import Preferences
from console.people.languages import LANGUAGE_NAMES
from console.people.zones import zone_names

__all__ = ["OwnPreferences", "set_language", "set_zone", "use_preferences_of"]


class OwnPreferences:
    """Middleware that applies the user's time zone and language. It must run after AuthenticationMiddleware."""

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
        if is_api_path(request.path):
            # The API answers in English. This is done here, because Django does not call process_view for unknown URLs.
            translation.activate("en")
        if self._async:
            return self.get_response(request)  # No reset is needed, because each request has its own context
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()

    def process_view(self, request: HttpRequest, view: Callable[..., object], *_: object) -> None:
        if is_api_path(request.path):
            timezone.activate(UTC)
        elif getattr(view, "login_required", True) and request.user.is_authenticated:
            use_preferences_of(request.user)


def use_preferences_of(user: AbstractBaseUser | AnonymousUser) -> None:
    """Use the user's time zone and language for the rest of the request."""
    _use(_preferences_of(user))


def set_zone(user: AbstractBaseUser, name: str) -> None:
    """Store the user's time zone."""
    Preferences.objects.update_or_create(user_id=user.pk, defaults={"time_zone": name})


def set_language(user: AbstractBaseUser, code: str) -> None:
    """Store the user's language."""
    Preferences.objects.update_or_create(user_id=user.pk, defaults={"language": code})


def _preferences_of(user: AbstractBaseUser | AnonymousUser) -> Preferences | None:
    try:
        found: Preferences = user.preferences  # type: ignore[union-attr]  # The reverse of Preferences.user
    except ObjectDoesNotExist:
        return None
    return found


def _use(preferences: Preferences | None) -> None:
    is_known = preferences is not None and preferences.time_zone in zone_names()
    timezone.activate(
        ZoneInfo(preferences.time_zone) if preferences and is_known else timezone.get_default_timezone()
    )
    if preferences is not None and preferences.language in LANGUAGE_NAMES:
        translation.activate(preferences.language)
