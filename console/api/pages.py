"""Where the next page of a list begins: a token that a caller hands back as `after` without looking into it."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from django.http import HttpRequest

from broker.acts.kinds.parameters import is_storable_text
from console.api.problems import Problem

__all__ = ["next_token", "read_token"]


def next_token(*key: str | float) -> str:
    """What the last row of a page was ordered by."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).rstrip(b"=").decode()


def read_token(request: HttpRequest, *first: str | float) -> tuple[Any, ...]:
    """The key that `after` names, in the types of `first`, which is the key before every row. Raises Problem."""
    token = request.GET.get("after", "")
    if not token:
        return first
    try:
        key = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or [type(part) for part in key] != [type(part) for part in first]:
        raise Problem(400, "BadQuery", "after takes the next_after of the page before, of the same list")
    if not all(isinstance(part, float | int) or is_storable_text(part) for part in key):
        raise Problem(400, "BadQuery", "after takes the next_after of the page before, of the same list")
    return tuple(key)
