"""The errors of a login at the login server."""

from __future__ import annotations

__all__ = ["LoginRefused", "ServerAway"]


class LoginRefused(Exception):
    """The login is refused. The text tells the user why, in the language that is active when it is read."""


class ServerAway(Exception):
    """The login server cannot be reached, its answers make no sense, or the client's secret cannot be read."""
