"""Log clients that keep repeating a refused request."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["RepeatedRefusals"]

logger = logging.getLogger(__name__)

_MOST_SHOWN: Final = 300
REPEATED: Final = 10


@dataclass(slots=True)
class _Refused:
    first_s: float
    count: int = 0


class RepeatedRefusals:
    """Counts the refused requests of one connection by kind of request.

    Logs the 10th refusal of a kind. If more refusals follow, logs the total when the connection ends.
    """

    def __init__(self, peer: Callable[[], str], now_s: Callable[[], float]) -> None:
        self._peer = peer
        self._now_s = now_s
        self._refused: dict[str, _Refused] = {}

    def add(self, request: str, topic: str, why: str) -> None:
        """Count a refusal. `topic` is empty if the request names no topic."""
        refused = self._refused.get(request)
        if refused is None:
            refused = self._refused[request] = _Refused(self._now_s())
        refused.count += 1
        if refused.count == REPEATED:
            logger.warning(
                "%s repeats a refused request: %s%s, %d times in %.1f s, most recently because: %s. Further refusals"
                " of this kind are only counted: in vela_refused_requests_total, and here when the connection ends",
                self._peer(),
                request,
                f" for {_shown(topic)}" if topic else "",
                refused.count,
                self._now_s() - refused.first_s,
                _shown(why),
                extra={"client": self._peer()},
            )

    def ended(self) -> None:
        """Log the totals of repeated refusals at the end of the connection."""
        for request, refused in self._refused.items():
            if refused.count > REPEATED:
                logger.warning(
                    "%s is gone: %s was refused %d times in %.1f s",
                    self._peer(),
                    request,
                    refused.count,
                    self._now_s() - refused.first_s,
                    extra={"client": self._peer()},
                )
        self._refused.clear()


def _shown(text: str) -> str:
    return repr(text[:_MOST_SHOWN])[1:-1]  # repr escapes control characters
