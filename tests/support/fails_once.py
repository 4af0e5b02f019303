"""A queue that fails once."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

__all__ = ["FailsOnce"]

_Item = TypeVar("_Item")


class FailsOnce(deque[_Item]):
    """A deque whose first `popleft` raises and removes nothing."""

    has_failed = False

    def popleft(self) -> _Item:
        """Raise RuntimeError at the first call. Later, remove and return the first item."""
        if not self.has_failed:
            self.has_failed = True
            raise RuntimeError("injected")
        return super().popleft()
