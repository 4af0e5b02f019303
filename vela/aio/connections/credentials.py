"""The credentials that a client sends to a broker."""

from __future__ import annotations

from vela.authentication import Authentication
from vela.errors import ErrorGettingAuthenticationData

__all__ = ["credentials_of"]


async def credentials_of(authentication: Authentication) -> bytes:
    """Return the credentials to send now. Any failure raises ErrorGettingAuthenticationData."""
    try:
        data = authentication.data()
        return data if isinstance(data, bytes) else await data
    except Exception as error:
        raise ErrorGettingAuthenticationData(
            f"cannot get the credentials: {type(error).__name__}: {error}"
        ) from error
