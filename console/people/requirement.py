"""The step after a correct password: a code, the setup of a second factor, or the login.

Users of the OpenID Connect server need no second factor, because the console accepts no password from them.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet

from broker.conf import broker_settings
from console.models import Grant, Identity, Role, SecondFactor

__all__ = ["AfterPassword", "after_password", "is_required", "lack_a_required_factor", "with_needs_more"]


class AfterPassword(Enum):
    """The next step after a correct password."""

    LOGIN = "login"
    CODE = "code"
    SET_UP = "set up"


def after_password(user: AbstractBaseUser) -> AfterPassword:
    """Return the next step of a user who gave the right password."""
    if SecondFactor.objects.filter(user_id=user.pk).exists():
        return AfterPassword.CODE
    return AfterPassword.SET_UP if is_required(user) else AfterPassword.LOGIN


def is_required(user: AbstractBaseUser) -> bool:
    """Return whether the user must have a second factor."""
    required = _required()
    return required is not None and User.objects.filter(required, pk=user.pk).exists()


def lack_a_required_factor() -> Q | None:
    """Return a condition for users who lack a required second factor. Return None if no user needs a factor."""
    required = _required()
    return None if required is None else required & ~Q(_has_factor())


def with_needs_more(users: QuerySet[Any]) -> QuerySet[Any]:
    """Annotate each user with `needs_more`: whether the user needs more than the password to log in."""
    lacking = lack_a_required_factor()
    more = Q(_has_factor())
    annotated: QuerySet[Any] = users.annotate(needs_more=more if lacking is None else more | lacking)
    return annotated


def _required() -> Q | None:
    whom = broker_settings().require_second_factor
    if whom == "nobody":
        return None
    has_password_here = ~Q(Exists(Identity.objects.filter(user=OuterRef("pk"))))
    if whom == "everybody":
        return has_password_here
    return has_password_here & (
        Q(is_superuser=True) | Q(Exists(Grant.objects.filter(user=OuterRef("pk"), role=Role.ADMIN)))
    )


def _has_factor() -> Exists:
    return Exists(SecondFactor.objects.filter(user=OuterRef("pk")))
