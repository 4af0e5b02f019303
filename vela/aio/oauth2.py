"""Get tokens from an OAuth 2.0 server with the client credentials grant."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from vela.aio.connections.tls import TlsOptions
from vela.authentication import Authentication
from vela.errors import ErrorGettingAuthenticationData, InvalidConfiguration

__all__ = ["AuthenticationOauth2"]

_GRANT: Final = "client_credentials"
_TIMEOUT_S: Final = 10.0
_DISCOVERY: Final = "/.well-known/openid-configuration"
_DEFAULT_LIFETIME_S: Final = 300.0  # for a token whose lifetime the server does not state
_LONGEST_MARGIN_S: Final = 60.0  # a token is renewed at most this long before it expires
_TAKES: Final = "issuer_url, and private_key or client_id and client_secret"


class AuthenticationOauth2(Authentication):
    """A token that an OAuth 2.0 server issues for a client id and its secret.

        vela.AuthenticationOauth2(json.dumps({
            "issuer_url": "https://login.example.org",
            "private_key": "/etc/shop/vela.json",
            "audience": "vela",
        }))

    The argument is JSON, as in Apache's client. `private_key` is the path, or a `file:` or `data:` URL, of a JSON file
    with `client_id` and `client_secret`. You may also put `client_id` and `client_secret` into the argument instead of
    `private_key`. Add `audience` and `scope` if the server needs them. The client keeps the token. It gets a new one
    when the broker asks for one, and for the next connection or request after the token was refused or is about to
    expire.
    """

    method = "token"

    def __init__(
        self,
        auth_params_string: str,
        *,
        tls_trust_certs_file_path: str | None = None,
    ) -> None:
        """`tls_trust_certs_file_path` names the only authorities that may have signed the server's certificate.

        Raises InvalidConfiguration.
        """
        fields = _fields(auth_params_string, "auth_params_string")
        if fields.get("type", _GRANT) != _GRANT:
            raise InvalidConfiguration(f"OAuth 2.0: type must be {_GRANT}, not {fields['type']!r}")
        self._issuer = str(fields.get("issuer_url") or "").rstrip("/")
        self._key_file = str(fields.get("private_key") or "")
        self._fields = fields
        if _scheme(self._issuer) not in ("http", "https"):
            raise InvalidConfiguration(f"OAuth 2.0 needs {_TAKES}: issuer_url is {self._issuer!r}")
        self._client()  # raises now if the file is wrong, not when the broker asks
        self._tls = TlsOptions(
            trust_certs_file_path=tls_trust_certs_file_path, validate_hostname=True
        ).context()
        self._now_s = time.monotonic
        self._token = b""
        self._renew_s = 0.0
        self._endpoint = ""

    async def data(self) -> bytes:
        """Return the token, or a new one if it was refused or is about to expire.

        Raises ErrorGettingAuthenticationData, and InvalidConfiguration if the key file is not valid any more.
        """
        if not self._token or self._now_s() >= self._renew_s:
            self._token, lifetime_s = await self._new_token()
            self._renew_s = self._now_s() + lifetime_s - min(_LONGEST_MARGIN_S, lifetime_s / 10)
        return self._token

    def refused(self, data: bytes) -> None:
        """Get a new token next time, unless a newer one than `data` is there already."""
        if data == self._token:
            self._token = b""

    async def _new_token(self) -> tuple[bytes, float]:
        """Return a token and its lifetime in seconds. The key file is read again, so a new secret takes effect."""
        import httpx  # a client without OAuth 2.0 does not load it

        client_id, client_secret = self._client()
        form = {"grant_type": _GRANT, "client_id": client_id, "client_secret": client_secret}
        form |= {name: str(self._fields[name]) for name in ("audience", "scope") if self._fields.get(name)}
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_S, verify=self._tls) as client:
                endpoint, self._endpoint = self._endpoint, ""  # look it up again after an error
                if not endpoint:
                    found = _document(await client.get(f"{self._issuer}{_DISCOVERY}"))
                    endpoint = _endpoint(self._issuer, found)
                answer = _document(await client.post(endpoint, data=form))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ErrorGettingAuthenticationData(
                f"the OAuth 2.0 server {self._issuer} does not answer: {type(error).__name__} {error}"
            ) from error
        token, lifetime_s = answer.get("access_token"), answer.get("expires_in", _DEFAULT_LIFETIME_S)
        if not isinstance(token, str) or not token:
            raise ErrorGettingAuthenticationData(f"{endpoint} sent no access_token")
        self._endpoint = endpoint
        try:
            return token.encode(), float(lifetime_s)
        except (TypeError, ValueError):
            return token.encode(), _DEFAULT_LIFETIME_S

    def _client(self) -> tuple[str, str]:
        """Return the client id and its secret. Raises InvalidConfiguration."""
        fields = self._fields
        if self._key_file:
            fields = _fields(_content(self._key_file), self._key_file[:100])
        client_id, secret = fields.get("client_id"), fields.get("client_secret")
        if not (isinstance(client_id, str) and isinstance(secret, str) and client_id and secret):
            where = self._key_file[:100] or "auth_params_string"
            raise InvalidConfiguration(
                f"OAuth 2.0 needs {_TAKES}: {where} has no client_id and client_secret"
            )
        return client_id, secret


def _content(place: str) -> str:
    """Return the content of a path, a file: URL or a data: URL."""
    if place.startswith("data:"):
        kind, _, data = place.partition(",")
        try:
            return base64.b64decode(data).decode() if kind.endswith(";base64") else unquote(data)
        except ValueError:  # not ASCII, not base64, or not UTF-8
            raise InvalidConfiguration("OAuth 2.0: private_key is not a valid data: URL in base64") from None
    try:
        is_url = place.startswith("file:")
        path = Path(unquote(urlsplit(place).path)) if is_url else Path(place).expanduser()
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: the home folder of `~` is not known
        raise InvalidConfiguration(f"OAuth 2.0: private_key cannot be read: {error}") from None


def _fields(text: str, where: str) -> Mapping[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InvalidConfiguration(f"OAuth 2.0 needs {_TAKES}: {where[:100]} is not a JSON object")
    return fields


def _document(answer: Any) -> Mapping[str, Any]:
    """Return the JSON object of an answer. Raises ErrorGettingAuthenticationData with the server's own words."""
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    fields = found if isinstance(found, dict) else {}
    if answer.status_code != 200 or not fields:
        said = ": ".join(str(fields[each]) for each in ("error", "error_description") if each in fields)
        raise ErrorGettingAuthenticationData(
            f"{answer.url} answers {answer.status_code}: {said[:300] or 'no JSON object'}"
        )
    return fields


def _endpoint(issuer: str, document: Mapping[str, Any]) -> str:
    """Return the URL that issues tokens. It gets the secret, so it must be https if the issuer's URL is https."""
    url = document.get("token_endpoint")
    schemes = ("https",) if _scheme(issuer) == "https" else ("https", "http")
    if not isinstance(url, str) or _scheme(url) not in schemes:
        raise ErrorGettingAuthenticationData(
            f"{issuer}{_DISCOVERY} has no token_endpoint with {' or '.join(schemes)}"
        )
    return url


def _scheme(url: str) -> str:
    """Return the scheme of a URL; "" if the URL is invalid."""
    try:
        return urlsplit(url).scheme
    except ValueError:  # an unclosed bracket
        return ""
