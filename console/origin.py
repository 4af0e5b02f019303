"""Where a request comes from, as the act log writes it."""

from __future__ import annotations

from django.http import HttpRequest

__all__ = ["origin_of"]


def origin_of(request: HttpRequest) -> str:
    """`console` and the peer's address."""
    return f"console {request.META.get('REMOTE_ADDR', '')}".strip()
