"""The tokens of clients."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.queries.database import fetch

__all__ = ["TOKENS_MOST", "TokenRow", "newest_tokens"]

TOKENS_MOST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A token that Vela created or revoked."""

    id: str
    role: str  # Empty if the token was created outside Vela
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    is_expired: bool
    revoked_by: str
    revoked_at: datetime | None


def newest_tokens() -> list[TokenRow]:
    """Return at most 200 tokens: valid, then expired, then revoked tokens, the newest first in each group."""
    return fetch(TokenRow, "tokens", "newest", {"limit": TOKENS_MOST})
