"""Who the client says it is. The classes and their arguments are those of Apache's Python client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from vela.errors import InvalidConfiguration

__all__ = [
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationDisabled",
    "AuthenticationTLS",
    "AuthenticationToken",
]

TokenSupplier = Callable[[], "str | bytes | Awaitable[str | bytes]"]


class Authentication:
    """What is sent in CONNECT and in answer to AUTH_CHALLENGE. Derive from it for a method of your own.

    One object may serve several clients.
    """

    method = "none"
    """The method's name, as the broker knows it."""

    def data(self) -> bytes | Awaitable[bytes]:
        """The credentials, asked for at each connection and each challenge.

        Runs on the client's event loop: what takes time belongs into the awaitable. What it raises reaches the
        caller as ErrorGettingAuthenticationData.
        """
        return b""

    def tls_certificate_files(self) -> tuple[str, str] | None:
        """Certificate and private key to show in TLS handshakes, PEM files; None = none."""
        return None


class AuthenticationDisabled(Authentication):
    """Nobody in particular."""


class AuthenticationToken(Authentication):
    """A token, a JSON Web Token as a rule.

    `token` may be a function that gives it, called at each connection and challenge, so that tokens may expire;
    a coroutine function too.
    """

    method = "token"

    def __init__(self, token: str | bytes | TokenSupplier) -> None:
        if not isinstance(token, (str, bytes)) and not callable(token):
            raise InvalidConfiguration("give the token as text or as a function that returns it")
        self._token = token

    def data(self) -> bytes | Awaitable[bytes]:
        """The token."""
        token = self._token() if callable(self._token) else self._token
        if isinstance(token, (str, bytes)):
            return _bytes(token)
        return _awaited(token)


class AuthenticationBasic(Authentication):
    """A user name and a password. `auth_params_string` is a JSON object with them, in place of them."""

    method = "basic"

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        method: str = "basic",
        auth_params_string: str | None = None,
    ) -> None:
        if auth_params_string is not None:
            username, password, method = _basic_parameters(auth_params_string, method)
        if username is None or password is None:
            raise InvalidConfiguration("basic authentication takes a username and a password")
        self.method = method
        self._data = f"{username}:{password}".encode()

    def data(self) -> bytes:
        """user:password."""
        return self._data


class AuthenticationTLS(Authentication):
    """The client's own certificate, shown in the TLS handshake. Both files are PEM."""

    method = "tls"

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        self._files = (certificate_path, private_key_path)

    def tls_certificate_files(self) -> tuple[str, str]:
        """Certificate and private key."""
        return self._files


def _bytes(token: str | bytes) -> bytes:
    return token.encode() if isinstance(token, str) else token


async def _awaited(token: Awaitable[str | bytes]) -> bytes:
    return _bytes(await token)


def _basic_parameters(text: str, method: str) -> tuple[str | None, str | None, str]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise InvalidConfiguration('auth_params_string is not JSON like {"username": "…", "password": "…"}')
    return fields.get("username"), fields.get("password"), fields.get("method", method)
