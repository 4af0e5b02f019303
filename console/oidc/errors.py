"""Errors of a login at the OpenID Connect server."""

from __future__ import annotations

__all__ = ["LoginRefused", "ServerAway"]


class LoginRefused(Exception):
    """The login is refused. The error's text tells the user why."""


class ServerAway(Exception):
    """The login server gives no usable answer, or VELA_OIDC_CLIENT_SECRET_FILE cannot be read."""
