"""What a transport's reading does when it is told to stop and to go on."""

from __future__ import annotations

__all__ = ["Reading"]


class Reading:
    """Whether it is on; it is never told twice."""

    def __init__(self) -> None:
        self.on = True

    def pause(self) -> None:
        """Stop."""
        assert self.on
        self.on = False

    def resume(self) -> None:
        """Go on."""
        assert not self.on
        self.on = True
