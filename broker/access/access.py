"""Who is at the door, and what may they do. All answers come from memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from broker.access.token_keys import TokenKeys
from broker.core.access.permissions import Action, Grants, Subject, allows
from broker.core.access.principal import ANONYMOUS, Principal
from broker.core.access.tokens import TOKEN_METHOD, verify
from broker.core.errors import AuthenticationFailed, NotAuthorized
from broker.environment import SettingInvalid
from broker.storage import access as store

if TYPE_CHECKING:
    from broker.access_settings import AccessSettings
    from broker.storage.access import StoredAccess
    from broker.storage.pool import ConnectionPool

__all__ = ["Access"]

logger = logging.getLogger(__name__)

RELOAD_TURNS: Final = 30  # of a second each: a lost notification costs no more than this
VERIFIED_TOKENS: Final = 1024  # remembered, so that a pull need not check a signature again


class Access:
    """Authenticates clients and checks their requests. A broker without authentication lets everybody do everything."""

    def __init__(self, settings: AccessSettings, pool: ConnectionPool) -> None:
        """Read the keys. Raises SettingInvalid if one cannot be used, or no client could prove anything."""
        # Other processes with the same VELA_AUTHENTICATION have no ports with TLS, and need not have the file.
        if "tls" in settings.authentication and settings.tls_trust_file is None:
            raise SettingInvalid(
                "VELA_AUTHENTICATION is tls, which needs certificates of clients: set VELA_TLS_TRUST_FILE to the"
                " authorities that sign them"
            )
        self._settings = settings
        self._pool = pool
        self._keys = TokenKeys(settings)
        self._grants = Grants(
            superusers=frozenset(settings.superuser_roles), metrics_roles=frozenset(settings.metrics_roles)
        )
        self._revoked: frozenset[str] = frozenset()
        self._verified: dict[bytes, Principal] = {}  # by token: each pull brings it
        self._sessions: set[Callable[[], None]] = set()
        self._turns = 0
        self._is_stale = True
        self.is_on = settings.asks_for_credentials

    # -- who ---------------------------------------------------------------------------------------------------

    def authenticate(
        self, method: str | None, data: bytes, now_ms: int, *, certificate_name: str = ""
    ) -> Principal:
        """Return the client that these credentials prove.

        `method` is the name of one method, or None for the one that the credentials fit. `certificate_name` is the
        common name of a client certificate that the TLS handshake has checked, "" = none. Raises AuthenticationFailed.
        """
        if not self.is_on:
            return ANONYMOUS
        methods = self._settings.authentication
        if data and method in (None, TOKEN_METHOD) and TOKEN_METHOD in methods:
            return self._token(data, now_ms)
        if certificate_name and method in (None, "tls") and "tls" in methods:
            return Principal(role=certificate_name, method="tls", expires_ms=None, token_id=None)
        if self._settings.anonymous_role and not data:
            return replace(ANONYMOUS, role=self._settings.anonymous_role)
        raise AuthenticationFailed(
            f"this broker asks for credentials, and the client sent none that it takes: {' or '.join(methods)}"
        )

    def _token(self, data: bytes, now_ms: int) -> Principal:
        principal = self._verified.get(data)
        if principal is None or _has_expired(principal, now_ms):
            principal = verify(
                data.decode("latin-1").strip(),
                self._keys.current(),
                now_ms=now_ms,
                role_claim=self._settings.token_role_claim,
                audience=self._settings.token_audience,
            )
            if len(self._verified) >= VERIFIED_TOKENS:
                self._verified.clear()
            self._verified[data] = principal
        self.check_revoked(principal)
        return principal

    def check_revoked(self, principal: Principal) -> None:
        """Raises AuthenticationFailed if somebody revoked this client's token."""
        if principal.token_id is not None and principal.token_id in self._revoked:
            raise AuthenticationFailed("the token was revoked: get a new one")

    def check_current(self, principal: Principal, now_ms: int) -> None:
        """Raises AuthenticationFailed if this client's credentials have expired or were revoked since it came."""
        if _has_expired(principal, now_ms):
            raise AuthenticationFailed("the credentials have expired: get new ones")
        self.check_revoked(principal)

    # -- what --------------------------------------------------------------------------------------------------

    def allows(self, principal: Principal, action: Action, subject: Subject) -> bool:
        """Return whether the client may do this."""
        return not self.is_on or allows(self._grants, principal, action, subject)

    def check(self, principal: Principal, action: Action, subject: Subject) -> None:
        """Raises NotAuthorized unless the client may do this."""
        if not self.allows(principal, action, subject):
            raise NotAuthorized(f"the role {principal.role!r} may not {action} {subject}")

    # -- changes -----------------------------------------------------------------------------------------------

    def watch(self, recheck: Callable[[], None]) -> Callable[[], None]:
        """Call `recheck` after each change of permissions and revocations. Return how to stop it."""
        self._sessions.add(recheck)
        return lambda: self._sessions.discard(recheck)

    async def load(self) -> None:
        """Read what is stored, and use it. Raises psycopg.Error."""
        if not self.is_on:
            return
        self._is_stale = False
        try:
            async with self._pool.use() as connection:
                stored = await store.load(connection)
        except BaseException:
            self._is_stale = True
            raise
        self.take(stored)

    def take(self, stored: StoredAccess) -> None:
        """Use these permissions and revocations from now on, and let every connection check its own."""
        grants = replace(
            stored.grants, superusers=self._grants.superusers, metrics_roles=self._grants.metrics_roles
        )
        if (grants, stored.revoked_tokens) != (self._grants, self._revoked):
            self._grants, self._revoked = grants, stored.revoked_tokens
            self._recheck()

    def changed(self) -> None:
        """Note that somebody changed permissions or tokens: the next turn reads them."""
        self._is_stale = True

    async def turn(self) -> None:
        """Take in what has changed: called once a second. Raises psycopg.Error."""
        self._turns += 1
        if self._keys.refresh():
            self._verified.clear()
        if self._is_stale or self._turns % RELOAD_TURNS == 0:
            await self.load()

    def _recheck(self) -> None:
        for recheck in list(self._sessions):
            try:
                recheck()
            except Exception:  # the other connections must be checked too
                logger.exception("checking a connection after a change of permissions failed")


def _has_expired(principal: Principal, now_ms: int) -> bool:
    return principal.expires_ms is not None and principal.expires_ms <= now_ms
