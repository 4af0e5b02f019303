"""Find or create the user for an OpenID Connect login, and store the user's roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from broker.login_settings import GroupRole, LoginSettings
from console.access.changes import log_change
from console.access.granting import set_login_roles
from console.models import Identity, Role
from console.oidc.errors import LoginRefused

__all__ = ["groups_in", "roles_of", "user_of"]

_LONGEST_NAME: Final = 150


def user_of(claims: dict[str, Any], settings: LoginSettings, *, origin: str) -> User:
    """Find or create the user, and store the roles that the user's groups give.

    Raises LoginRefused with the reason.
    """
    if claims.get("email") and claims.get("email_verified") in (False, "false"):
        raise LoginRefused(
            format_lazy(
                gettext_lazy(
                    "{server} has not verified your e-mail address. Confirm it there, then log in again."
                ),
                server=settings.oidc_name,
            )
        )
    issuer, subject = str(claims["iss"]), str(claims["sub"])
    if "\0" in subject:
        raise LoginRefused(gettext_lazy("The subject of the login server's token contains a NUL."))
    with transaction.atomic():
        user = _known(issuer, subject) or _made(claims, settings, origin)
        if not user.is_active:
            raise LoginRefused(
                format_lazy(
                    gettext_lazy(
                        "The user {name} is deactivated. An administrator can activate the user again."
                    ),
                    name=user.get_username(),
                )
            )
        set_login_roles(
            user, roles_of(groups_in(claims, settings), settings), who=settings.oidc_name, origin=origin
        )
    return user


def groups_in(claims: dict[str, Any], settings: LoginSettings) -> list[str]:
    """Return the user's groups. The name of the groups claim may be a path, such as `realm_access.roles`."""
    name = settings.oidc_groups_claim
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, str):
        return [found]
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def roles_of(groups: Iterable[str], settings: LoginSettings) -> dict[str, Role]:
    """Return the highest role that these groups give for each namespace pattern."""
    theirs = frozenset(groups)
    given: list[GroupRole] = [each for each in settings.oidc_roles if each.group in theirs]
    return {
        pattern: max(Role[each.role.upper()] for each in given if each.pattern == pattern)
        for pattern in dict.fromkeys(each.pattern for each in given)
    }


def _known(issuer: str, subject: str) -> User | None:
    identity = Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
    return None if identity is None else identity.user


def _made(claims: dict[str, Any], settings: LoginSettings, origin: str) -> User:
    name = _name_in(claims)
    try:
        with transaction.atomic():
            user = User.objects.create_user(name)
            Identity.objects.create(user=user, issuer=claims["iss"], subject=claims["sub"])
    except IntegrityError:
        # A concurrent login of the same identity may have created the user.
        if known := _known(str(claims["iss"]), str(claims["sub"])):
            return known
        raise LoginRefused(
            format_lazy(
                gettext_lazy(
                    "Another user is named {name} already. An administrator must deal with that user before you can"
                    " log in."
                ),
                name=name,
            )
        ) from None
    log_change("create_user", {"user": name}, who=settings.oidc_name, origin=origin)
    return user


def _name_in(claims: dict[str, Any]) -> str:
    verified = claims.get("email_verified") in (True, "true")
    for claim in ("preferred_username", *(["email"] if verified else []), "sub"):
        name = User.normalize_username(str(claims.get(claim) or ""))
        try:
            UnicodeUsernameValidator()(name)
        except ValidationError:
            continue
        if len(name) <= _LONGEST_NAME:
            return name
    raise LoginRefused(
        gettext_lazy(
            "None of the claims preferred_username, email (if verified) and sub can be the name of a user here."
        )
    )
