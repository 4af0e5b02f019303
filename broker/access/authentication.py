"""Identify a client by a method that the settings allow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from broker.access.issuers import Issuers
from broker.access.passwords import BASIC_METHOD, Passwords
from broker.access.token_keys import TokenKeys
from broker.core.access.principal import ANONYMOUS, Principal
from broker.core.access.tokens import TOKEN_METHOD, verify
from broker.core.errors import AuthenticationFailed
from broker.environment import SettingInvalid

if TYPE_CHECKING:
    from broker.access_settings import AccessSettings
    from broker.core.access.credentials import ClientCertificate, Credentials

__all__ = ["TLS_METHOD", "Authentication"]

TLS_METHOD: Final = "tls"
VERIFIED_TOKENS: Final = 1024
MAX_TOKEN_BYTES: Final = 64 * 1024


class Authentication:
    """Checks the credentials of clients."""

    def __init__(self, settings: AccessSettings) -> None:
        methods = settings.authentication
        # Check this here and not in the settings, because only the broker needs a trust file.
        if TLS_METHOD in methods and settings.tls_trust_file is None:
            raise SettingInvalid(
                "VELA_AUTHENTICATION is tls, which needs certificates of clients: set VELA_TLS_TRUST_FILE to the"
                " authorities that sign them"
            )
        self._settings = settings
        self._keys = TokenKeys(settings)
        self.takes_tokens = TOKEN_METHOD in methods or settings.takes_openid_tokens
        self._passwords = (
            Passwords(settings.basic_file) if BASIC_METHOD in methods and settings.basic_file else None
        )
        self.issuers = Issuers(settings)
        self._verified: dict[bytes, Principal] = {}

    @property
    def takes_passwords(self) -> bool:
        """Whether a client may authenticate with a password."""
        return self._passwords is not None

    def now(self, credentials: Credentials, now_ms: int) -> Principal | None:
        """Return the authenticated client, or None if the caller must await `check`.

        Raises AuthenticationFailed if the credentials are missing or not accepted.
        """
        method, data = credentials.method, credentials.data
        if data and method in (None, TOKEN_METHOD) and self.takes_tokens:
            return self._token(data, now_ms)
        if data and method in (None, BASIC_METHOD) and self._passwords is not None:
            return self._passwords.known(data)
        certificate = credentials.certificate if TLS_METHOD in self._settings.authentication else None
        if certificate is not None and method in (None, TLS_METHOD):
            return _of_certificate(certificate, now_ms)
        if self._settings.anonymous_role and not data:
            return replace(ANONYMOUS, role=self._settings.anonymous_role)
        raise AuthenticationFailed(
            "this broker asks for credentials, and the client sent none of the kinds that the broker accepts:"
            f" {' or '.join(self._settings.authentication)}"
        )

    async def check(self, credentials: Credentials, now_ms: int) -> Principal:
        """Return the authenticated client. Raises AuthenticationFailed."""
        found = self.now(credentials, now_ms)
        if found is not None:
            return found
        data = credentials.data.strip()
        token = data.decode("latin-1")
        origin = self.issuers.origin(token) if credentials.method != BASIC_METHOD else None
        if origin is not None:
            found = await self.issuers.verify(token, origin, now_ms)
            self._remember(data, found)
            return found
        assert self._passwords is not None
        return await self._passwords.check(credentials.data, credentials.host)

    def check_password(self, principal: Principal) -> None:
        """Raise AuthenticationFailed if the password was changed or removed after the client connected."""
        if (
            principal.password_id
            and self._passwords is not None
            and not self._passwords.is_current(principal.password_id)
        ):
            raise AuthenticationFailed("the password was changed or the user removed: connect again")

    def refresh(self) -> bool:
        """Read changed files, and begin to fetch issuers' keys. Return whether the passwords have changed."""
        has_new_keys = self._keys.refresh()
        if self.issuers.turn() or has_new_keys:
            self._verified.clear()
        return self._passwords is not None and self._passwords.refresh()

    def stop(self) -> None:
        """Stop waiting for password checks and for issuers' keys."""
        self.issuers.stop()
        if self._passwords is not None:
            self._passwords.stop()

    def _token(self, data: bytes, now_ms: int) -> Principal | None:
        data = data.strip()  # Copies of a token with extra spaces must not fill the cache
        principal = self._verified.get(data)
        if principal is not None and not principal.has_expired(now_ms):
            return principal
        if len(data) > MAX_TOKEN_BYTES:
            raise AuthenticationFailed(f"the token has {len(data)} bytes, the limit is {MAX_TOKEN_BYTES}")
        token = data.decode("latin-1")
        origin = self.issuers.origin(token)
        if origin is not None:
            principal = self.issuers.verify_now(token, origin, now_ms)
            if principal is None:
                return None
        elif TOKEN_METHOD in self._settings.authentication:
            principal = verify(
                token,
                self._keys.current(),
                now_ms=now_ms,
                role_claim=self._settings.token_role_claim,
                audience=self._settings.token_audience,
            )
        else:
            raise AuthenticationFailed("the token names none of the issuers in VELA_OPENID_ISSUERS")
        self._remember(data, principal)
        return principal

    def _remember(self, data: bytes, principal: Principal) -> None:
        if len(self._verified) >= VERIFIED_TOKENS:
            self._verified.clear()
        self._verified[data] = principal


def _of_certificate(certificate: ClientCertificate, now_ms: int) -> Principal:
    if certificate.expires_ms <= now_ms:
        raise AuthenticationFailed("the client's certificate has expired: connect again with a new one")
    return Principal(
        role=certificate.name, method=TLS_METHOD, expires_ms=certificate.expires_ms, token_id=None
    )
