"""The error that tells the user why Vela did not start."""

from __future__ import annotations

__all__ = ["StartRefused"]


class StartRefused(Exception):
    """Vela did not start, and nothing is left running. The text says what to change, with one line for each fault.

    The exit code tells a service manager whether to try again.
    """

    def __init__(self, text: str, *, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code
