"""The authentication backend for passwords and sessions."""

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
    """Django's backend with Vela's rules for logins."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        """Refuse users of the OpenID Connect server, even if they have a password.

        With VELA_LOCAL_LOGIN=0, accept only superusers.
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
        return await sync_to_async(self.authenticate)(request, username, password, **more)

    def get_user(self, user_id: int) -> User | None:
        """Return None for a user who lacks a required second factor."""
        users = User.objects.select_related("preferences").filter(pk=user_id)
        lacking = lack_a_required_factor()
        user = (users if lacking is None else users.exclude(lacking)).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: int) -> User | None:
        return await sync_to_async(self.get_user)(user_id)
