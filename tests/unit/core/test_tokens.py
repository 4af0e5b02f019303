"""JSON Web Tokens: broker.core.access.tokens."""

from __future__ import annotations

import base64
import hmac

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from broker.core.access.tokens import TokenKey, TokenKeyInvalid, asymmetric_key, issue, secret_key, verify
from broker.core.errors import AuthenticationFailed

NOW_MS = 1_800_000_000_000
SECRET = secret_key(b"one secret of more than 32 bytes!")
OTHER = secret_key(b"another secret, also of 32 bytes")
RSA = RSAKey.generate_key(2048)
EC = ECKey.generate_key("P-256")
HS256, NONE = "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJub25lIn0"  # headers, encoded


def token(key: TokenKey = SECRET, **changed: object) -> str:
    claims: dict[str, object] = {"sub": "app", "jti": "t1", "exp": NOW_MS // 1000 + 60, **changed}
    algorithm = key.algorithms[0]
    given = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": algorithm}, given, key.key, algorithms=[algorithm])


def test_a_token_says_who_until_when_and_by_which_id() -> None:
    made = issue(SECRET, role="app", token_id="t1", issued_ms=NOW_MS, expires_ms=NOW_MS + 60_000)
    found = verify(made, [OTHER, SECRET], now_ms=NOW_MS)
    assert (found.role, found.method, found.expires_ms, found.token_id) == (
        "app",
        "token",
        NOW_MS + 60_000,
        "t1",
    )
    forever = issue(SECRET, role="app", token_id="t2", issued_ms=NOW_MS, expires_ms=None)
    assert verify(forever, [SECRET], now_ms=NOW_MS + 10**12).expires_ms is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (token(OTHER), "no key"),
        (token() + "x", "no key"),
        (token()[:-4], "no key"),
        ("", "no key"),
        ("a.b.c", "no key"),
        ("é.\ud800.x", "no key"),
        (base64.urlsafe_b64encode(b"[" * 40_000).decode() + ".e30.x", "no key"),
        (token(exp=NOW_MS // 1000 - 1), "expired"),
        (token(nbf=NOW_MS // 1000 + 60), "not valid"),
        (token(exp="soon"), "not valid"),
        (token(sub=None), "no role"),
        (token(sub=""), "no role"),
        (token(sub=["app"]), "no role"),
    ],
)
def test_a_token_that_is_not_valid_is_refused(bad: str, reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        verify(bad, [SECRET], now_ms=NOW_MS)


def test_a_token_without_a_signature_is_refused() -> None:
    head, claims, _ = token().split(".")
    for unsigned in (f"{NONE}.{claims}.", f"{head}.{claims}."):
        with pytest.raises(AuthenticationFailed):
            verify(unsigned, [SECRET], now_ms=NOW_MS)


@pytest.mark.parametrize(
    "written",
    [
        lambda key: key.as_pem(private=False),
        lambda key: key.as_der(private=False),
        lambda key: base64.b64encode(key.as_der(private=False)) + b"\n",
    ],
    ids=["pem", "der", "base64"],
)
@pytest.mark.parametrize("pair", [RSA, EC], ids=["rsa", "ec"])
def test_a_public_key_verifies_what_its_private_key_signed(pair: RSAKey | ECKey, written: object) -> None:
    assert callable(written)
    private, public = asymmetric_key(pair.as_pem(private=True)), asymmetric_key(written(pair))
    made = issue(private, role="app", token_id="t", issued_ms=NOW_MS, expires_ms=None)
    assert verify(made, [SECRET, public], now_ms=NOW_MS).role == "app"


def test_a_public_key_is_not_a_secret() -> None:
    """An attacker could sign with HMAC, and use the public key, which everybody knows, as the secret."""
    public_pem = RSA.as_pem(private=False)
    with pytest.raises(TokenKeyInvalid, match="not a secret"):
        secret_key(public_pem)
    _, claims, _ = token().split(".")
    signed = f"{HS256}.{claims}"
    forged = f"{signed}.{_base64(hmac.digest(public_pem, signed.encode(), 'sha256'))}"
    with pytest.raises(AuthenticationFailed):
        verify(forged, [asymmetric_key(public_pem)], now_ms=NOW_MS)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_the_audience_counts_only_if_the_broker_has_one() -> None:
    assert verify(token(aud="others"), [SECRET], now_ms=NOW_MS).role == "app"
    assert verify(token(aud=["x", "vela"]), [SECRET], now_ms=NOW_MS, audience="vela").role == "app"
    for bad in (token(), token(aud="others")):
        with pytest.raises(AuthenticationFailed, match="not valid"):
            verify(bad, [SECRET], now_ms=NOW_MS, audience="vela")


def test_the_role_can_be_in_another_claim() -> None:
    made = token(client="billing")
    assert verify(made, [SECRET], now_ms=NOW_MS, role_claim="client").role == "billing"


def test_a_secret_key_is_raw_bytes_or_base64_of_them() -> None:
    raw = bytes(range(32))
    made = token(secret_key(raw))
    assert verify(made, [secret_key(base64.b64encode(raw) + b"\n")], now_ms=NOW_MS).role == "app"


@pytest.mark.parametrize("raw", [b"", b"short", base64.b64encode(b"short")])
def test_a_short_secret_is_refused(raw: bytes) -> None:
    with pytest.raises(TokenKeyInvalid, match="32"):
        secret_key(raw)


LOCKED = RSAKey.generate_key(2048).as_pem(private=True, password="hush")


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", LOCKED]
)
def test_bytes_that_are_not_a_key_are_refused(raw: bytes) -> None:
    with pytest.raises(TokenKeyInvalid, match="RSA or EC"):
        asymmetric_key(raw)
