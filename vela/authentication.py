"""The client's credentials. Classes and arguments are those of Apache's Python client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from vela.errors import InvalidConfiguration

__all__ = [
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationDisabled",
    "AuthenticationTLS",
    "AuthenticationToken",
    "token_authentication",
]

TokenSupplier = Callable[[], "str | bytes | Awaitable[str | bytes]"]


class Authentication:
    """Credentials for CONNECT and for the answer to AUTH_CHALLENGE. Subclass it to add an authentication method.

    Several clients can share one object.
    """

    method = "none"
    """The name by which the broker knows the authentication method."""

    def data(self) -> bytes | Awaitable[bytes]:
        """Return the credentials.

        A client calls this for each connection and each challenge, and a pull consumer for each request. It runs on the
        client's event loop, so slow work belongs in the awaitable. If it raises, the caller gets
        ErrorGettingAuthenticationData.
        """
        return b""

    def refused(self, data: bytes) -> None:
        """Note that the broker does not accept these credentials, or asks for new ones.

        Override this if `data` may return the same credentials again.
        """

    def tls_certificate_files(self) -> tuple[str, str] | None:
        """Return the PEM files of the certificate and private key for TLS handshakes; None = this method has none."""
        return None


class AuthenticationDisabled(Authentication):
    """No credentials."""


class AuthenticationToken(Authentication):
    """A token, usually a JSON Web Token.

    `token` can be a function or a coroutine function that returns it. The client calls it each time it sends the token,
    so tokens may expire.
    """

    method = "token"

    def __init__(self, token: str | bytes | TokenSupplier) -> None:
        if not isinstance(token, (str, bytes)) and not callable(token):
            raise InvalidConfiguration("give the token as text or as a function that returns it")
        self._token = token

    def data(self) -> bytes | Awaitable[bytes]:
        token = self._token() if callable(self._token) else self._token
        if isinstance(token, (str, bytes)):
            return _bytes(token)
        return _awaited(token)


class AuthenticationBasic(Authentication):
    """A user name and a password. `auth_params_string`, a JSON object, replaces both, and `method` if it has one."""

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
            raise InvalidConfiguration("basic authentication needs a username and a password")
        self.method = method
        self._data = f"{username}:{password}".encode()

    def data(self) -> bytes:
        return self._data


class AuthenticationTLS(Authentication):
    """The client's certificate for the TLS handshake. Both files are PEM."""

    method = "tls"

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        self._files = (certificate_path, private_key_path)

    def tls_certificate_files(self) -> tuple[str, str]:
        return self._files


def token_authentication(token: str, token_file: str) -> Authentication | None:
    """Return the credentials from a token or from a token file; None if both are empty.

    The client reads the file each time it sends the token. Raises InvalidConfiguration if both are given.
    """
    if token and token_file:
        raise InvalidConfiguration("both a token and a file with a token are given: give one of them")
    if token_file:
        path = Path(token_file)
        return AuthenticationToken(lambda: path.read_text(encoding="utf-8").strip())
    return AuthenticationToken(token) if token else None


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
