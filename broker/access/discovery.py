"""Fetch the keys of an OpenID Connect issuer."""

from __future__ import annotations

import json
import ssl
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx

from broker.core.access.tokens import TokenKey, TokenKeyInvalid, jwk_keys

if TYPE_CHECKING:
    from broker.access_settings import AccessSettings

__all__ = ["IssuerAway", "fetch_keys"]

DISCOVERY: Final = "/.well-known/openid-configuration"
MAX_BYTES: Final = 1024 * 1024


class IssuerAway(Exception):
    """The keys of an issuer cannot be read."""


def fetch_keys(issuer: str, settings: AccessSettings) -> dict[str, TokenKey]:
    """Return an issuer's public keys, each under its key id.

    This call blocks. Raises IssuerAway if the keys cannot be read.
    """
    timeout_s = settings.openid_timeout_s
    try:
        trust = ssl.create_default_context(cafile=settings.openid_trust_file)
    except OSError as error:
        raise IssuerAway(f"VELA_OPENID_TRUST_FILE cannot be used: {error}") from error
    with httpx.Client(timeout=timeout_s, verify=trust) as client:
        document = _document(client, f"{issuer.rstrip('/')}{DISCOVERY}", timeout_s)
        if document.get("issuer") != issuer:
            raise IssuerAway(
                f"its discovery document names the issuer {str(document.get('issuer'))[:200]!r}: set"
                " VELA_OPENID_ISSUERS to exactly this name"
            )
        address = document.get("jwks_uri")
        schemes = ("https",) if _scheme(issuer) == "https" else ("https", "http")
        if not isinstance(address, str) or _scheme(address) not in schemes:
            raise IssuerAway(f"its discovery document has no jwks_uri with {' or '.join(schemes)}")
        try:
            return jwk_keys(_document(client, address, timeout_s))
        except TokenKeyInvalid as error:
            raise IssuerAway(f"{address} cannot be used: {error}") from None


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:  # For example, the URL has an unclosed bracket
        return ""


def _document(client: httpx.Client, url: str, timeout_s: float) -> dict[str, Any]:
    until_s = time.monotonic() + 2 * timeout_s
    content = bytearray()
    try:
        with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
            if answer.status_code != 200:
                raise IssuerAway(f"{url} answers {answer.status_code}")
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > MAX_BYTES or time.monotonic() > until_s:
                    raise IssuerAway(f"{url} sends too much, or too slowly")
        document = json.loads(content)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise IssuerAway(f"{url} does not answer: {type(error).__name__} {error}") from error
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise IssuerAway(f"{url} does not answer with a JSON object")
    return document
