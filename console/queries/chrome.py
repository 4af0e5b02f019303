"""What the frame of every page shows: whether a broker runs and how many acts wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from console.queries.database import fetch

__all__ = ["Chrome", "chrome"]

_SILENT_AFTER = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chrome:
    """The broker's last sign of life and the queue of acts."""

    host: str | None  # None: no broker ever ran on this database
    pid: int | None
    seen_at: datetime | None
    waiting_acts: int

    def is_running(self, now: datetime) -> bool:
        """Return whether the broker has reported in the last 15 s."""
        return self.seen_at is not None and now - self.seen_at < _SILENT_AFTER


def chrome() -> Chrome:
    """Read the frame's numbers. One query."""
    return fetch(Chrome, "chrome", "chrome", {})[0]
