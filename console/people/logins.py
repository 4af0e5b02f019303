"""The authentication backend: it checks who may log in with a password, and loads the user of a session."""

from __future__ import annotations

from typing import Any, Final

from asgiref.sync import sync_to_async
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest

from broker.conf import broker_settings
from console.models import Identity
from console.people.requirement import lack_a_required_factor

__all__ = ["BACKEND", "Users"]

BACKEND: Final = "console.people.logins.Users"


class Users(ModelBackend):
    """Django's backend with Vela's rules for logins. It loads a user and the user's preferences in one query."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        """Return the user with this name and password, or None. With VELA_LOCAL_LOGIN=0, accept only superusers.

        Also return None for a user of the login server, even if Django's own pages or commands have set a password:
        these users are exempt from VELA_REQUIRE_SECOND_FACTOR.
        """
        user = super().authenticate(request, username, password, **more)
        if user is None or not (broker_settings().local_login or user.is_superuser):
            return None
        return None if Identity.objects.filter(user=user).exists() else user

    async def aauthenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        """Do the same as `authenticate`, for asynchronous code."""
        return await sync_to_async(self.authenticate)(request, username, password, **more)

    def get_user(self, user_id: int) -> User | None:
        """Return the user of a session. None if there is no such user, or if the user is deactivated.

        Also return None if the user must have a second factor and has none: the next login sets one up.
        """
        users = User.objects.select_related("preferences").filter(pk=user_id)
        lacking = lack_a_required_factor()
        user = (users if lacking is None else users.exclude(lacking)).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: int) -> User | None:
        """Do the same as `get_user`, for asynchronous code."""
        return await sync_to_async(self.get_user)(user_id)
