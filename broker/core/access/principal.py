"""An authenticated client: its role, and how it proved its identity."""

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
    method: str  # as the protocol names it: "token", "basic" or "tls"; "none" = without credentials
    expires_ms: int | None  # when the credentials expire, in milliseconds since 1970; None = never
    token_id: str | None  # the token's `jti` claim, by which the token can be revoked
    password_id: str = ""  # identifies the line of the password file that let the client in; "" = none
    # The role of the proxy between client and broker, which needs each permission too; "" = no proxy.
    proxy_role: str = ""
    # The client behind a proxy, if its own credentials were checked. These credentials must stay valid too.
    original: Principal | None = None

    @property
    def can_renew(self) -> bool:
        """Whether the client can send new credentials on its open connection: a certificate needs a new handshake."""
        return self.method != "tls"

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the credentials have expired."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


ANONYMOUS: Final = Principal(role="anonymous", method="none", expires_ms=None, token_id=None)
"""Every client of a broker that asks for no credentials."""


def behind_proxy(principal: Principal, original: Principal | str, proxy_roles: Collection[str]) -> Principal:
    """Return the client for which `principal` connects: `principal` itself if it is not a proxy.

    `original` is the role that `principal` names for its client ("" = none). If the broker has checked that client's
    own credentials, `original` is the client's Principal, and the credentials of both must stay valid. Raises
    NotAuthorized if a proxy names no role or the role of a proxy, or if `principal` is not a proxy and names a role
    that is not its own.
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
