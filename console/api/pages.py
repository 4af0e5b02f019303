"""Tokens that say where the next page of a list begins."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from broker.acts.kinds.parameters import is_storable_text
from console.api.problems import Problem

__all__ = ["next_token", "read_token"]


def next_token(*key: str | float) -> str:
    """Return a token with the sort key of a page's last row."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).rstrip(b"=").decode()


def read_token(token: str, *first: str | float) -> tuple[Any, ...]:
    """Return the key in a token. For an empty token, return `first`, which comes before all rows.

    Raises Problem for a token that is unreadable or does not fit the list.
    """
    if not token:
        return first
    try:
        key = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if (
        not isinstance(key, list)
        or [type(part) for part in key] != [type(part) for part in first]
        or not all(isinstance(part, float | int) or is_storable_text(part) for part in key)
    ):
        raise Problem(400, "BadQuery", "after takes the next_after of the previous page of the same list")
    return tuple(key)
