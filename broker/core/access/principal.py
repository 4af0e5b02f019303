"""The client that a door let in: its role, and how it proved it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ANONYMOUS", "Principal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated client. Permissions are granted to its role."""

    role: str
    method: str  # "token", "tls", "basic" or "oidc"; "none" for a client without credentials
    expires_ms: int | None  # when the credentials end, in milliseconds since 1970; None = never
    token_id: str | None  # the token's `jti` claim, by which it can be revoked


ANONYMOUS: Final = Principal(role="anonymous", method="none", expires_ms=None, token_id=None)
"""Every client of a broker that asks for no credentials."""
