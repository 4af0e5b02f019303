"""Check the id token of the OpenID Connect server."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext_lazy
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from console.oidc.errors import LoginRefused
from console.oidc.server import LoginServer, keys_of

__all__ = ["claims_of"]

_LEEWAY_S: Final = 60
_ALGORITHMS: Final = (  # Public-key signatures only
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)


def claims_of(id_token: str, server: LoginServer, *, client_id: str, nonce: str) -> dict[str, Any]:
    """Check the token and return its claims.

    Raises LoginRefused if a check fails, and ServerAway if the server's keys cannot be read.
    """
    try:
        claims = _signed(id_token, server)
        jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": server.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(claims)
    except ExpiredTokenError as error:
        raise LoginRefused(
            gettext_lazy(
                "The login server's token has expired. Compare the clocks of the login server and of this server."
            )
        ) from error
    except (JoseError, ValueError) as error:
        raise LoginRefused(gettext_lazy("The login server's token does not belong to this login.")) from error
    audience = claims["aud"]
    party = claims.get("azp")
    if (isinstance(audience, list) and len(audience) > 1 and party is None) or party not in (None, client_id):
        raise LoginRefused(gettext_lazy("The login server's token is for another application."))
    return claims


def _signed(id_token: str, server: LoginServer) -> dict[str, Any]:
    try:
        return _decoded(id_token, keys_of(server))
    except InvalidKeyIdError:
        return _decoded(id_token, keys_of(server, anew=True))


def _decoded(id_token: str, keys: KeySet) -> dict[str, Any]:
    return jwt.decode(id_token, keys, algorithms=list(_ALGORITHMS)).claims
