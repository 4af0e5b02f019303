"""Keep the secret of a second factor in the session while a user sets up the factor."""

from __future__ import annotations

from typing import Any, Final

from cryptography.fernet import InvalidToken
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest

from console.people.second_factor import address_of, new_secret, picture_of, readable, sealed, unsealed

__all__ = ["forget", "offer", "offered"]

_KEY: Final = "offered_second_factor"


def offer(request: HttpRequest, user: AbstractBaseUser) -> dict[str, Any]:
    """Return the secret as a QR code and as text. A reload of the page shows the same secret."""
    secret = offered(request)
    if not secret:
        secret = new_secret()
        request.session[_KEY] = sealed(secret)
    return {"picture": picture_of(address_of(user.get_username(), secret)), "secret": readable(secret)}


def offered(request: HttpRequest) -> str:
    """Return the secret from the session, or "" if no secret can be decrypted."""
    try:
        return unsealed(request.session.get(_KEY, ""))
    except InvalidToken:
        return ""


def forget(request: HttpRequest) -> None:
    """Remove the secret from the session."""
    request.session.pop(_KEY, None)
