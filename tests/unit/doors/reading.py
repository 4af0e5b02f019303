"""A stand-in for a transport's reading that checks how it is paused and resumed."""

from __future__ import annotations

__all__ = ["Reading"]


class Reading:
    """Whether reading is on. It must not be paused twice, or resumed twice."""

    def __init__(self) -> None:
        self.on = True

    def pause(self) -> None:
        """Stop reading."""
        assert self.on
        self.on = False

    def resume(self) -> None:
        """Read again."""
        assert not self.on
        self.on = True
