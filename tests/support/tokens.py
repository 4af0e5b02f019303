"""Tokens for tests, and the settings of a broker that accepts them."""

from __future__ import annotations

import base64
from typing import Final

from broker.core.access.tokens import issue, secret_key

__all__ = ["ENVIRONMENT", "FOREIGN_SECRET", "SECRET", "START_MS", "token"]

START_MS: Final = 1_700_000_000_000
SECRET: Final = base64.b64encode(b"the secret of all brokers of tests").decode()
FOREIGN_SECRET: Final = base64.b64encode(b"a secret that no broker of ours has").decode()
ENVIRONMENT: Final = {
    "VELA_AUTHENTICATION": "token",
    "VELA_TOKEN_SECRET_KEY": SECRET,
    "VELA_SUPERUSER_ROLES": "root",
}


def token(
    role: str,
    *,
    expires_ms: int | None = None,
    token_id: str | None = None,
    secret: str = SECRET,
    audience: str = "",
) -> str:
    """Return a token. A broker with `ENVIRONMENT` accepts it, unless you pass another `secret`."""
    return issue(
        secret_key(secret.encode()),
        role=role,
        token_id=token_id or f"of-{role}",
        issued_ms=START_MS,
        expires_ms=expires_ms,
        audience=audience,
    )
