"""What a client shows to a broker, as bytes."""

from __future__ import annotations

from vela.authentication import Authentication
from vela.errors import ErrorGettingAuthenticationData

__all__ = ["credentials_of"]


async def credentials_of(authentication: Authentication) -> bytes:
    """Fresh credentials. Raises ErrorGettingAuthenticationData, whatever went wrong."""
    try:
        data = authentication.data()
        return data if isinstance(data, bytes) else await data
    except Exception as error:
        raise ErrorGettingAuthenticationData(f"the credentials could not be had: {error!r}") from error
