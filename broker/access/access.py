"""Authenticate clients and check their permissions."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from broker.access.authentication import TLS_METHOD, Authentication
from broker.access.passwords import BASIC_METHOD
from broker.core.access.credentials import Credentials
from broker.core.access.permissions import Action, Grants, Subject, allows
from broker.core.access.principal import ANONYMOUS, Principal, behind_proxy
from broker.core.access.tokens import TOKEN_METHOD
from broker.core.errors import AuthenticationFailed, BrokerError, NotAuthorized
from broker.storage import access as store

if TYPE_CHECKING:
    from broker.access.issuers import IssuerState
    from broker.access_settings import AccessSettings
    from broker.storage.access import StoredAccess
    from broker.storage.pool import ConnectionPool

__all__ = ["Access"]

logger = logging.getLogger(__name__)

# A notification can be lost, so the broker reads all permissions every 30 turns.
RELOAD_TURNS: Final = 30
RECHECKED_AT_ONCE: Final = 100
METHODS: Final = (TOKEN_METHOD, BASIC_METHOD, TLS_METHOD)


class Access:
    """Says who a client is and what it may do."""

    def __init__(self, settings: AccessSettings, pool: ConnectionPool) -> None:
        """Read the token keys and the password file. Raises SettingInvalid if a setting is wrong."""
        self._settings = settings
        self._pool = pool
        self._authentication = Authentication(settings)
        self._grants = Grants(
            superusers=frozenset(settings.superuser_roles), metrics_roles=frozenset(settings.metrics_roles)
        )
        self._revoked: frozenset[str] = frozenset()
        self._sessions: set[Callable[[], None]] = set()
        self._to_recheck: deque[Callable[[], None]] = deque()
        self._turns = 0
        self._is_stale = True
        self.is_on = settings.asks_for_credentials
        self.takes_tokens = self._authentication.takes_tokens
        self.takes_passwords = self._authentication.takes_passwords
        self.successes: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def authenticate_now(self, credentials: Credentials, now_ms: int) -> Principal | None:
        """Return the authenticated client, or None if only `authenticate` can check the credentials.

        Raises AuthenticationFailed if the credentials are missing or not accepted. Raises NotAuthorized if the original
        principal is missing or not allowed.
        """
        if not self.is_on:
            return ANONYMOUS
        try:
            principal = self._authentication.now(credentials, now_ms)
            if principal is None:
                return None
            original = self._original_credentials(credentials, principal)
            client = None if original is None else self._authentication.now(original, now_ms)
            if original is not None and client is None:
                return None
            return self._let_in(principal, client or credentials.original_role)
        except BrokerError:
            self._count_failure(credentials)
            raise

    async def authenticate(self, credentials: Credentials, now_ms: int) -> Principal:
        """Return the authenticated client. Raises the errors of `authenticate_now`."""
        if not self.is_on:
            return ANONYMOUS
        try:
            principal = await self._authentication.check(credentials, now_ms)
            original = self._original_credentials(credentials, principal)
            client = None if original is None else await self._authentication.check(original, now_ms)
            return self._let_in(principal, client or credentials.original_role)
        except BrokerError:
            self._count_failure(credentials)
            raise

    def _original_credentials(self, credentials: Credentials, principal: Principal) -> Credentials | None:
        settings = self._settings
        if not settings.authenticate_original_auth_data or principal.role not in settings.proxy_roles:
            return None
        if not credentials.original_data:
            raise AuthenticationFailed(
                f"the proxy {principal.role!r} must send its client's credentials (original auth data)"
            )
        return Credentials(
            method=credentials.original_method, data=credentials.original_data, host=credentials.host
        )

    def _let_in(self, principal: Principal, original: Principal | str) -> Principal:
        client = behind_proxy(principal, original, self._settings.proxy_roles)
        self.check_revoked(client)
        self.successes[principal.method] += 1
        return client

    def _count_failure(self, credentials: Credentials) -> None:
        named = credentials.method
        self.failures[named if named in METHODS else "none"] += 1

    def check_revoked(self, principal: Principal) -> None:
        """Raise AuthenticationFailed if the token was revoked, or the password was changed or removed."""
        if principal.token_id is not None and principal.token_id in self._revoked:
            raise AuthenticationFailed("the token was revoked: get a new one")
        self._authentication.check_password(principal)
        if principal.original is not None:
            self.check_revoked(principal.original)

    def check_current(self, principal: Principal, now_ms: int) -> None:
        """Raise AuthenticationFailed if the client's credentials have expired or were revoked."""
        if principal.has_expired(now_ms):
            raise AuthenticationFailed("the credentials have expired: get new ones")
        self.check_revoked(principal)

    def allows(self, principal: Principal, action: Action, subject: Subject) -> bool:
        """Return whether the client may perform the action on the subject."""
        return not self.is_on or allows(self._grants, principal, action, subject)

    def check(self, principal: Principal, action: Action, subject: Subject) -> None:
        """Raise NotAuthorized unless the client may perform the action on the subject."""
        if self.allows(principal, action, subject):
            return
        if principal.proxy_role and self.allows(replace(principal, proxy_role=""), action, subject):
            raise NotAuthorized(
                f"the role {principal.proxy_role!r} of the proxy may not {action} {subject}: its client"
                f" {principal.role!r} may, and both need the permission"
            )
        raise NotAuthorized(f"the role {principal.role!r} may not {action} {subject}")

    def watch(self, recheck: Callable[[], None]) -> Callable[[], None]:
        """Call `recheck` whenever permissions or passwords change, or a token is revoked.

        Return a function that stops the calls.
        """
        self._sessions.add(recheck)
        return lambda: self._sessions.discard(recheck)

    async def load(self) -> None:
        """Read the stored permissions and revoked tokens. Raises psycopg.Error."""
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
        """Replace the permissions and revoked tokens."""
        grants = replace(
            stored.grants, superusers=self._grants.superusers, metrics_roles=self._grants.metrics_roles
        )
        if (grants, stored.revoked_tokens) != (self._grants, self._revoked):
            self._grants, self._revoked = grants, stored.revoked_tokens
            self._recheck()

    def changed(self) -> None:
        """Make the next `turn` read the permissions and revoked tokens."""
        self._is_stale = True

    async def turn(self) -> None:
        """Refresh keys, passwords and permissions. Call this once a second. Raises psycopg.Error."""
        self._turns += 1
        if self._authentication.refresh():
            self._recheck()
        if self._is_stale or self._turns % RELOAD_TURNS == 0:
            await self.load()

    def stop(self) -> None:
        """Stop waiting for password checks and for issuers' keys."""
        self._authentication.stop()

    def issuers(self) -> Iterator[IssuerState]:
        """Yield the state of each OpenID Connect issuer."""
        return self._authentication.issuers.states()

    def _recheck(self) -> None:
        is_under_way = bool(self._to_recheck)
        self._to_recheck = deque(self._sessions)
        if not is_under_way:
            self._recheck_some()

    def _recheck_some(self) -> None:
        for _ in range(min(RECHECKED_AT_ONCE, len(self._to_recheck))):
            recheck = self._to_recheck.popleft()
            if recheck not in self._sessions:
                continue
            try:
                recheck()
            except Exception:
                logger.exception("checking a connection after a change of permissions failed")
        if self._to_recheck:
            asyncio.get_running_loop().call_soon(self._recheck_some)
