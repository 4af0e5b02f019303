"""Tokens of OpenID Connect issuers: broker.core.access.issued_tokens."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from broker.core.access.issued_tokens import TokenOrigin, key_of, origin_of, verify_issued
from broker.core.access.principal import Principal
from broker.core.access.tokens import TokenKeyInvalid, jwk_keys
from broker.core.errors import AuthenticationFailed

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
ISSUER = "https://login.example.org"
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec", "use": "sig", "alg": "ES256"})
KEYS = jwk_keys(dict(KeySet([RSA, EC]).as_dict(private=False)))


def token(key: RSAKey | ECKey = EC, *, algorithm: str = "", **changed: Any) -> str:
    claims = {"iss": ISSUER, "sub": "app", "aud": ["x", "vela"], "exp": NOW_S + 60, "jti": "t1", **changed}
    algorithm = algorithm or ("ES256" if key.key_type == "EC" else "RS256")
    given: dict[str, Any] = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": key.kid}, given, key, algorithms=[algorithm])


def verified(made: str, *, role_claim: str = "sub", leeway_s: int = 0) -> Principal:
    origin = origin_of(made)
    assert origin is not None
    key = key_of(origin, KEYS)
    assert key is not None
    return verify_issued(
        made,
        key,
        issuer=ISSUER,
        audiences=["vela", "kafka"],
        role_claim=role_claim,
        leeway_s=leeway_s,
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize("made", [token(EC), token(RSA), token(RSA, algorithm="PS384")])
def test_a_token_says_who_until_when_and_by_which_id(made: str) -> None:
    found = verified(made)
    assert (found.role, found.method, found.expires_ms, found.token_id) == (
        "app",
        "token",
        (NOW_S + 60) * 1000,
        "t1",
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "other"},
        {"aud": None},
        {"exp": None},
        {"exp": NOW_S - 1},
        {"nbf": NOW_S + 5},
        {"iss": f"{ISSUER}/other"},
        {"sub": None},
        {"sub": []},
        {"sub": [1]},
    ],
)
def test_a_token_that_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        verified(token(**changed))


def test_the_leeway_makes_a_token_last_longer_and_begin_earlier() -> None:
    late = verified(token(exp=NOW_S - 5), leeway_s=10)
    assert late.expires_ms == (NOW_S + 5) * 1000
    assert verified(token(nbf=NOW_S + 5), leeway_s=10).role == "app"


def test_the_role_can_be_the_first_text_of_another_claim() -> None:
    assert verified(token(roles=["first", "second"]), role_claim="roles").role == "first"


def test_a_key_signs_with_its_own_algorithms_only() -> None:
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in (
            {"alg": "HS256", "kid": "rsa"},
            {"iss": ISSUER, "sub": "root", "aud": "vela", "exp": NOW_S + 60},
        )
    ]
    signed = hmac.digest(RSA.as_pem(private=False), b".".join(parts), "sha256")
    forged = b".".join([*parts, base64.urlsafe_b64encode(signed).rstrip(b"=")]).decode()
    stranger = ECKey.generate_key("P-256", {"kid": "ec"})
    for made in (forged, token(stranger)):
        with pytest.raises(AuthenticationFailed, match="does not carry the signature"):
            verified(made)


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "a.b",
        "a.b.c",
        "....",
        "\xff.e30.x",
        "e30.W10.x",
        f"{'W1tb' * 40_000}.{'W1tb' * 40_000}.x",
        token(iss=None),
    ],
)
def test_damaged_text_has_no_token_origin(damaged: str) -> None:
    assert origin_of(damaged) is None


def test_a_token_without_a_key_id_fits_an_issuer_with_one_key() -> None:
    nameless = TokenOrigin(issuer=ISSUER, key_id="")
    assert key_of(nameless, KEYS) is None
    assert key_of(nameless, {"ec": KEYS["ec"]}) is KEYS["ec"]
    assert key_of(TokenOrigin(issuer=ISSUER, key_id="other"), {"ec": KEYS["ec"]}) is None


def test_a_key_set_gives_public_keys_for_signatures_only() -> None:
    signing = EC.as_dict(private=False)
    others = [
        "nonsense",
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {**RSA.as_dict(private=False), "kid": "enc", "use": "enc"},
        {**signing, "kid": "wrong", "alg": "RS256"},
        {"kty": "EC", "crv": "P-256", "kid": "torn"},
    ]
    assert list(jwk_keys({"keys": [*others, signing]})) == ["ec"]
    for empty in ({}, {"keys": 7}, {"keys": others}):
        with pytest.raises(TokenKeyInvalid):
            jwk_keys(empty)
