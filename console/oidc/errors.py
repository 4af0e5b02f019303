"""Why a login at the login server did not come about, in words for the user. The log has the details."""

from __future__ import annotations

__all__ = ["LoginRefused", "ServerAway"]


class LoginRefused(Exception):
    """This login does not count; the text says why, in the language that is active when it is read."""


class ServerAway(Exception):
    """The login server cannot be reached, or its answers make no sense. The text is for the log."""
