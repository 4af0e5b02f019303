"""The endpoints and keys that the OpenID Connect server publishes."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from console.oidc.errors import ServerAway

__all__ = ["LoginServer", "forget", "keys_of", "login_server", "request"]

TIMEOUT_S: Final = 10.0

_KEPT_S: Final = 3600.0
_KEYS_ANEW_S: Final = 30.0

_servers: Final[dict[str, tuple[float, LoginServer]]] = {}
_keys: Final[dict[str, tuple[float, KeySet]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginServer:
    """The part of the discovery document that a login needs."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str  # Empty if the server has none
    takes_basic: bool  # The server accepts the client's secret in the Authorization header


def login_server(issuer: str) -> LoginServer:
    """Return the server's endpoints, which are cached for an hour.

    Raises ServerAway if the discovery document cannot be read, names another issuer, or lacks a valid endpoint.
    """
    kept = _servers.get(issuer)
    if kept is not None and time.monotonic() - kept[0] < _KEPT_S:
        return kept[1]
    document = _json("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if document.get("issuer") != issuer:
        raise ServerAway(
            f"VELA_OIDC_ISSUER is {issuer!r}, and the server there calls itself {document.get('issuer')!r}:"
            " write it in exactly the same way"
        )
    methods = document.get("token_endpoint_auth_methods_supported")
    server = LoginServer(
        issuer=issuer,
        authorization_endpoint=_address(document, "authorization_endpoint", issuer),
        token_endpoint=_address(document, "token_endpoint", issuer),
        jwks_uri=_address(document, "jwks_uri", issuer),
        userinfo_endpoint=_address(document, "userinfo_endpoint", issuer)
        if document.get("userinfo_endpoint")
        else "",
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
    )
    _servers[issuer] = (time.monotonic(), server)
    return server


def keys_of(server: LoginServer, *, anew: bool = False) -> KeySet:
    """Return the public keys for verifying the server's tokens.

    The keys are cached for an hour. If `anew` is true, keys older than 30 s are read again.
    Raises ServerAway if the server sends no readable key.
    """
    kept = _keys.get(server.issuer)
    if kept is not None and time.monotonic() - kept[0] < (_KEYS_ANEW_S if anew else _KEPT_S):
        return kept[1]
    keys = _read(_json("GET", server.jwks_uri), server.jwks_uri)
    _keys[server.issuer] = (time.monotonic(), keys)
    return keys


def _read(document: dict[str, Any], url: str) -> KeySet:
    """Return the readable keys."""
    listed = document.get("keys")
    found: list[Key] = []
    fault: Exception | None = None
    for each in listed if isinstance(listed, list) else ():
        try:
            found += KeySet.import_key_set({"keys": [each]}).keys
        except (JoseError, ValueError, KeyError, TypeError) as error:
            fault = error
    if not found:
        raise ServerAway(f"{url} has no keys that can be read: {fault!r}") from fault
    return KeySet(found)


def forget() -> None:
    """Empty the caches of endpoints and keys."""
    _servers.clear()
    _keys.clear()


def request(method: str, url: str, **how: Any) -> httpx.Response:
    """Send a request to the server. Raises ServerAway if no answer arrives or the status is at least 500."""
    try:
        answer = httpx.request(method, url, timeout=TIMEOUT_S, **how)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerAway(f"{url} did not answer: {type(error).__name__} {error}") from error
    if answer.status_code >= 500:
        raise ServerAway(f"{url} answered {answer.status_code}")
    return answer


def _json(method: str, url: str) -> dict[str, Any]:
    answer = request(method, url, headers={"Accept": "application/json"})
    try:
        document = answer.json() if answer.status_code == 200 else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ServerAway(f"{url} answered {answer.status_code}, without a usable JSON object")
    return document


def _address(document: dict[str, Any], name: str, issuer: str) -> str:
    url = document.get(name)
    schemes = ("https",) if urlsplit(issuer).scheme == "https" else ("https", "http")
    with suppress(ValueError):  # urlsplit raises ValueError for an unclosed bracket
        if isinstance(url, str) and urlsplit(url).scheme in schemes:
            return url
    raise ServerAway(f"the discovery document of {issuer} has no {name} with {' or '.join(schemes)}")
