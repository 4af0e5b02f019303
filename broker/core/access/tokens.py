"""Verify and issue JSON Web Tokens, and read their keys."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, OctKey, RSAKey

from broker.core.access.principal import Principal
from broker.core.errors import AuthenticationFailed

__all__ = [
    "TOKEN_METHOD",
    "TokenKey",
    "TokenKeyInvalid",
    "asymmetric_key",
    "issue",
    "jwk_keys",
    "principal_of_claims",
    "secret_key",
    "verify",
]

TOKEN_METHOD: Final = "token"  # noqa: S105 - a word of the protocol
MIN_SECRET_BYTES: Final = 32
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_EC: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}


class TokenKeyInvalid(ValueError):
    """The bytes are not a key for tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKey:
    """A key that verifies tokens. A secret key or a private key can also issue tokens."""

    key: OctKey | RSAKey | ECKey
    algorithms: tuple[str, ...]  # New tokens use the first algorithm

    @property
    def is_secret(self) -> bool:
        """Whether the key is a shared secret."""
        return isinstance(self.key, OctKey)

    @property
    def can_sign(self) -> bool:
        """Whether the key can issue tokens."""
        return bool(self.key.is_private)


def secret_key(raw: bytes) -> TokenKey:
    """Return a secret key from raw bytes or from base64 text.

    Raises TokenKeyInvalid if the key is too short or is a public key.
    """
    secret = _from_base64(raw) or raw
    if len(secret) < MIN_SECRET_BYTES:
        raise TokenKeyInvalid(
            f"a secret key has at least {MIN_SECRET_BYTES} random bytes, as base64 text: openssl rand -base64 32"
        )
    try:
        return TokenKey(key=OctKey.import_key(secret), algorithms=("HS256", "HS384", "HS512"))
    except ValueError:
        raise TokenKeyInvalid("it is a public key and not a secret: set it as a public key") from None


def asymmetric_key(raw: bytes) -> TokenKey:
    """Read a public or private RSA or EC key from PEM, DER or base64-encoded DER.

    Raises TokenKeyInvalid if the bytes are not such a key.
    """
    data = raw.strip() if raw.lstrip().startswith(b"-----BEGIN") else _from_base64(raw) or raw
    try:
        rsa = RSAKey.import_key(data)
        return TokenKey(key=rsa, algorithms=_RSA)
    except (JoseError, ValueError, TypeError):
        pass
    try:
        ec = ECKey.import_key(data)
        return TokenKey(key=ec, algorithms=_EC[ec.curve_name])
    except (JoseError, ValueError, TypeError, KeyError):  # A key with a password raises TypeError
        raise TokenKeyInvalid("it is not an RSA or EC key in PEM or DER without a password") from None


def jwk_keys(document: Mapping[str, Any]) -> dict[str, TokenKey]:
    """Return the RSA and EC signature keys of a JSON Web Key Set, keyed by key id.

    Other keys are skipped. Raises TokenKeyInvalid if no key remains.
    """
    found: dict[str, TokenKey] = {}
    given = document.get("keys")
    for each in given if isinstance(given, list) else ():
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        try:
            key = RSAKey.import_key(each) if each["kty"] == "RSA" else ECKey.import_key(each)
            algorithms = _EC[key.curve_name] if isinstance(key, ECKey) else _RSA
        except (JoseError, ValueError, KeyError, TypeError):
            continue
        only = each.get("alg", algorithms[0])
        if only in algorithms:
            found[str(each.get("kid", ""))] = TokenKey(
                key=key, algorithms=(only,) if "alg" in each else algorithms
            )
    if not found:
        raise TokenKeyInvalid("it has no RSA or EC key for signatures")
    return found


def verify(
    token: str, keys: Sequence[TokenKey], *, now_ms: int, role_claim: str = "sub", audience: str = ""
) -> Principal:
    """Return the client that a token identifies.

    Raises AuthenticationFailed if none of the keys signed the token, or if the token is not valid. If `audience` is
    empty, the token may have any audience.
    """
    claims = _signed_claims(token, keys)
    return principal_of_claims(
        claims,
        now_ms=now_ms,
        role_claim=role_claim,
        options={"aud": {"essential": True, "value": audience}} if audience else {},
    )


def principal_of_claims(
    claims: Mapping[str, Any],
    *,
    now_ms: int,
    role_claim: str,
    options: Mapping[str, Any],
    leeway_s: int = 0,
) -> Principal:
    """Return the client that a token's claims identify. The caller must have verified the token's signature.

    `options` maps claims to joserfc's validation options. Raises AuthenticationFailed if the claims are not valid.
    """
    checked = {name: claims[name] for name in ("exp", "nbf", "aud", "iss") if name in claims}
    try:
        jwt.JWTClaimsRegistry(now=now_ms // 1000, leeway=leeway_s, **options).validate(checked)
    except ExpiredTokenError:
        raise AuthenticationFailed("the token has expired: get a new one") from None
    except JoseError as error:
        raise AuthenticationFailed(f"the token is not valid here: {error}") from None
    role, token_id, expires_s = claims.get(role_claim), claims.get("jti"), claims.get("exp")
    if not isinstance(role, str) or not role:
        raise AuthenticationFailed(f"the token names no role: its claim {role_claim!r} must be text")
    return Principal(
        role=role,
        method=TOKEN_METHOD,
        expires_ms=None if expires_s is None else int((expires_s + leeway_s) * 1000),
        token_id=token_id if isinstance(token_id, str) else None,
    )


def issue(
    key: TokenKey,
    *,
    role: str,
    token_id: str,
    issued_ms: int,
    expires_ms: int | None,
    role_claim: str = "sub",
    audience: str = "",
) -> str:
    """Return a signed token for a role. Without `expires_ms`, the token never expires."""
    claims: dict[str, Any] = {role_claim: role, "jti": token_id, "iat": issued_ms // 1000}
    if expires_ms is not None:
        claims["exp"] = expires_ms // 1000
    if audience:
        claims["aud"] = audience
    algorithm = key.algorithms[0]
    return jwt.encode({"alg": algorithm}, claims, key.key, algorithms=[algorithm])


def _signed_claims(token: str, keys: Sequence[TokenKey]) -> dict[str, Any]:
    for each in keys:
        try:
            decoded = jwt.decode(token, each.key, algorithms=each.algorithms)
        except (JoseError, ValueError, RecursionError):  # Deeply nested JSON raises RecursionError
            continue
        return decoded.claims
    raise AuthenticationFailed("no key of this broker signed the token, or it is damaged")


def _from_base64(raw: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(raw.split()), validate=True)
    except binascii.Error:
        return b""
