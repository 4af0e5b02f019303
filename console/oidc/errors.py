"""The errors of a login at the login server."""

from __future__ import annotations

__all__ = ["LoginRefused", "ServerAway"]


class LoginRefused(Exception):
    """The login is refused. The text tells the user why, in the language that is active when it is read."""


class ServerAway(Exception):
    """The login server does not answer as it should, or VELA_OIDC_CLIENT_SECRET_FILE cannot be read."""
