"""Authentication with the bearer tokens of the broker."""

from __future__ import annotations

from typing import Final

from broker.acts.access import TokenRefused, role_of_token
from broker.conf import broker_settings
from console.access.rights import OF_A_SUPERUSER, Rights
from console.api.problems import Problem
from console.queries.rights import grants_of_role

__all__ = ["SCHEME", "rights_by_token"]

SCHEME: Final = "bearer "


def rights_by_token(header: str) -> Rights:
    """Return the rights of a token's role. Raises Problem for a token that is not accepted.

    A permission to produce or consume gives no rights in the console.
    """
    settings = broker_settings()
    try:
        role = role_of_token(settings, header[len(SCHEME) :].strip())
    except TokenRefused as refused:
        raise Problem(
            401, "AuthenticationError", str(refused), headers={"WWW-Authenticate": "Bearer"}
        ) from None
    return Rights(
        name=f"{role} (token)",
        grants=(OF_A_SUPERUSER,) if role in settings.superuser_roles else tuple(grants_of_role(role)),
        is_superuser=role in settings.superuser_roles,
        is_read_only=settings.console_read_only,
    )
