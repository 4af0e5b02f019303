"""Tell where a request comes from."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest

__all__ = ["api_origin_of", "client_address", "origin_of"]


def origin_of(request: HttpRequest) -> str:
    """Return `console` and the client's address."""
    return f"console {client_address(request)}".strip()


def api_origin_of(request: HttpRequest) -> str:
    """Return `token ADDRESS` for a request with a bearer token, and `api ADDRESS` for any other."""
    has_token = request.headers.get("Authorization", "")[:7].lower() == "bearer "
    return f"{'token' if has_token else 'api'} {client_address(request)}".strip()


def client_address(request: HttpRequest) -> str:
    """Return the client's address. If VELA_PROXY_COUNT is set, the address comes from X-Forwarded-For."""
    peer = str(request.META.get("REMOTE_ADDR", ""))
    proxies = getattr(settings, "VELA_PROXY_COUNT", 0)
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    if not 0 < proxies <= len(forwarded):
        return peer
    try:
        return str(ipaddress.ip_address(forwarded[-proxies]))
    except ValueError:
        return peer
