"""Clients that have proved their identity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from broker.core.errors import NotAuthorized

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["ANONYMOUS", "Principal", "behind_proxy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated client. Permissions are granted to its role."""

    role: str
    method: str  # "token", "basic", "tls" or "none"
    expires_ms: int | None  # If None, the credentials never expire
    token_id: str | None  # The token's `jti` claim
    password_id: str = ""  # Digest of the client's line in the password file
    proxy_role: str = ""
    original: Principal | None = None

    @property
    def can_renew(self) -> bool:
        """Whether the client can send new credentials on its open connection."""
        return self.method != "tls"

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the credentials have expired."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


ANONYMOUS: Final = Principal(role="anonymous", method="none", expires_ms=None, token_id=None)
"""Every client of a broker that asks for no credentials."""


def behind_proxy(principal: Principal, original: Principal | str, proxy_roles: Collection[str]) -> Principal:
    """Return the client for which `principal` connects, or `principal` itself if it is not a proxy.

    `original` is the client's role, or the client's Principal if the broker has checked the client's own credentials.

    Raises NotAuthorized if `principal` may not connect for that client, or if a proxy names no client.
    """
    role = original if isinstance(original, str) else original.role
    if principal.role not in proxy_roles:
        if role and role != principal.role:
            raise NotAuthorized(
                f"the role {principal.role!r} is not a proxy, and may not connect for {role!r}: VELA_PROXY_ROLES names"
                " the roles of proxies"
            )
        return principal
    if not role:
        raise NotAuthorized(
            f"the proxy {principal.role!r} must name the role of its client (original principal)"
        )
    if role in proxy_roles:
        raise NotAuthorized(f"{role!r} is the role of a proxy, so no proxy can connect for it")
    client = replace(principal, role=role, proxy_role=principal.role)
    if isinstance(original, str):
        return client
    ends = [each.expires_ms for each in (principal, original) if each.expires_ms is not None]
    return replace(client, expires_ms=min(ends, default=None), original=original)
