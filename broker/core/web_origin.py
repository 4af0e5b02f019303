"""Web origins and hosts as values that can be compared."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Origin", "parse_host", "parse_origin"]

_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+?)\.?(?::(\d{1,5}))?", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The scheme, host and port that a web page comes from."""

    scheme: str
    host: str  # In lower case, with brackets around an IPv6 address
    port: int  # 0 if no port is given and the scheme has no default port


def parse_host(text: str) -> tuple[str, int | None] | None:
    """Split `host` or `host:port` into host and port. Return None for any other text."""
    found = _AUTHORITY.fullmatch(text)
    if found is None or not found[1].strip("."):
        return None
    return found[1].lower(), None if found[2] is None else int(found[2])


def parse_origin(text: str) -> Origin | None:
    """Read `scheme://host` or `scheme://host:port`. Return None for any other text, such as `null`."""
    scheme, _, authority = text.partition("://")
    host = parse_host(authority)
    if host is None or not _SCHEME.fullmatch(scheme):
        return None
    scheme = scheme.lower()
    name, port = host
    return Origin(scheme, name, _DEFAULT_PORTS.get(scheme, 0) if port is None else port)
