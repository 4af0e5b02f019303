"""HTTP Basic authentication.

Checking a password takes half a second of CPU time. The process therefore remembers a keyed digest of a correct
password for a minute. The digest includes the stored hash, so that a password change takes effect at once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from typing import Final

from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from console.api.problems import Problem
from console.people.requirement import with_needs_more

__all__ = ["ASK_FOR_BASIC", "user_by_password"]

ASK_FOR_BASIC: Final = {"WWW-Authenticate": 'Basic realm="Vela", charset="UTF-8"'}
REMEMBER_S: Final = 60.0
_MOST_REMEMBERED: Final = 1000
_NEEDS_MORE: Final = (
    "this user needs a second factor, which HTTP Basic cannot carry: use another user without one for programs, or"
    " log in on a page and send the session's cookie"
)
_LONGEST_NAME: Final = 150  # Django's limit for user names

_key: Final = secrets.token_bytes(32)
# Maps a user's primary key to the digest and its expiry time on the monotonic clock.
_remembered: Final[dict[object, tuple[bytes, float]]] = {}


def user_by_password(request: HttpRequest, header: str) -> AbstractBaseUser:
    """Return the user that an Authorization header names.

    Raises Problem with 401 if the login fails, and with 403 if the user has or needs a second factor.
    """
    name, password = _credentials(header)
    people = get_user_model()
    known = with_needs_more(people.objects.filter(**{people.USERNAME_FIELD: name})).first()
    if known is not None and known.is_active and _is_remembered(known, password):
        user: AbstractBaseUser = known
    else:
        found = authenticate(request, username=name, password=password)
        if found is None:
            raise Problem(401, "AuthenticationError", "wrong user name or password", headers=ASK_FOR_BASIC)
        _remember(found, password)
        user = found
    if known is not None and known.needs_more:
        raise Problem(403, "SecondFactorNeeded", _NEEDS_MORE)
    return user


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        if "\0" in name or len(name) > _LONGEST_NAME:
            raise ValueError
    except (ValueError, binascii.Error) as error:
        raise Problem(
            401, "AuthenticationError", "send HTTP Basic credentials", headers=ASK_FOR_BASIC
        ) from error
    return name, password


def _is_remembered(user: AbstractBaseUser, password: str) -> bool:
    digest, until = _remembered.get(user.pk, (b"", 0.0))
    return time.monotonic() < until and hmac.compare_digest(digest, _digest(user, password))


def _remember(user: AbstractBaseUser, password: str) -> None:
    if len(_remembered) >= _MOST_REMEMBERED:
        _remembered.clear()
    _remembered[user.pk] = (_digest(user, password), time.monotonic() + REMEMBER_S)


def _digest(user: AbstractBaseUser, password: str) -> bytes:
    return hmac.digest(_key, f"{user.pk}\0{user.password}\0{password}".encode(), "sha256")
