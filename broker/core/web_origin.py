"""Web origins and the `Host` of a request, as values that can be compared."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Origin", "parse_host", "parse_origin"]

_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+?)\.?(?::(\d{1,5}))?", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Where a web page comes from. Two pages have the same origin only if all three fields are equal."""

    scheme: str
    host: str  # in lower case, an IPv6 address in brackets
    port: int  # 0 if the origin names none and its scheme has no default


def parse_host(text: str) -> tuple[str, int | None] | None:
    """Return the host, written as in `Origin`, and the port of `host` or `host:port`; None for anything else."""
    found = _AUTHORITY.fullmatch(text)
    if found is None or not found[1].strip("."):
        return None
    return found[1].lower(), None if found[2] is None else int(found[2])


def parse_origin(text: str) -> Origin | None:
    """Return the origin that `scheme://host` or `scheme://host:port` names; None for anything else, such as `null`."""
    scheme, _, authority = text.partition("://")
    host = parse_host(authority)
    if host is None or not _SCHEME.fullmatch(scheme):
        return None
    scheme = scheme.lower()
    name, port = host
    return Origin(scheme, name, _DEFAULT_PORTS.get(scheme, 0) if port is None else port)
