"""Decode path segments and query strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import unquote_plus

from broker.doors.handshake_errors import InvalidQuery

__all__ = ["Query", "form_decode", "parse_query"]

Query: TypeAlias = Mapping[str, str]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def form_decode(text: str, what: str) -> str:
    """Decode `%xx` and `+`. Raises InvalidQuery."""
    if _BAD_ESCAPE.search(text):
        raise InvalidQuery(f"{what} has a % without two hexadecimal digits after it; write %25 for a %")
    try:
        decoded = unquote_plus(text, errors="strict")
        decoded.encode()
    except UnicodeError:
        raise InvalidQuery(f"{what} is not percent-encoded UTF-8") from None
    return decoded


def parse_query(query_string: str | bytes) -> Query:
    """Parse a query string such as `a=1&b=2`. If a name is repeated, the first value is used.

    A name without `=` has an empty value. Raises InvalidQuery.
    """
    text = query_string.decode("latin-1") if isinstance(query_string, bytes) else query_string
    query: dict[str, str] = {}
    for pair in text.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            query.setdefault(form_decode(name, "a parameter name"), form_decode(value, name))
    return query
