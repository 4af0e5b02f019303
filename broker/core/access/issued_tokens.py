"""Find the OpenID Connect issuer that a token names, and verify the token."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError

from broker.core.access.principal import Principal
from broker.core.access.tokens import TokenKey, principal_of_claims
from broker.core.errors import AuthenticationFailed

__all__ = ["TokenOrigin", "key_of", "origin_of", "verify_issued"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOrigin:
    """The issuer and the key that an unverified token names."""

    issuer: str
    key_id: str


def origin_of(token: str) -> TokenOrigin | None:
    """Return the issuer and the key id that a token names, or None if the token is malformed."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    header, claims = _object(parts[0]), _object(parts[1])
    issuer, key_id = claims.get("iss"), header.get("kid", "")
    if not isinstance(issuer, str) or not isinstance(key_id, str):
        return None
    return TokenOrigin(issuer=issuer, key_id=key_id)


def key_of(origin: TokenOrigin, keys: Mapping[str, TokenKey]) -> TokenKey | None:
    """Return the key for verifying a token, or None if the issuer has no such key."""
    if not origin.key_id and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(origin.key_id)


def verify_issued(
    token: str,
    key: TokenKey,
    *,
    issuer: str,
    audiences: Collection[str],
    role_claim: str,
    leeway_s: int,
    now_ms: int,
) -> Principal:
    """Return the client that a token identifies.

    Raises AuthenticationFailed if the token is not valid.
    """
    try:
        claims = jwt.decode(token, key.key, algorithms=key.algorithms).claims
    except (JoseError, ValueError, RecursionError):
        raise AuthenticationFailed(f"the token does not carry the signature of {issuer}") from None
    role = claims.get(role_claim)
    if isinstance(role, list):
        claims = {**claims, role_claim: next((each for each in role if isinstance(each, str)), None)}
    return principal_of_claims(
        claims,
        now_ms=now_ms,
        role_claim=role_claim,
        leeway_s=leeway_s,
        options={
            "iss": {"essential": True, "value": issuer},
            "aud": {"essential": True, "values": list(audiences)},
            "exp": {"essential": True},
        },
    )


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
