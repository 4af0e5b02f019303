"""Makes a client visible that repeats a request which the broker keeps refusing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["RepeatedRefusals"]

logger = logging.getLogger(__name__)

_MOST_SHOWN: Final = 300  # characters of a client's text in one log line
REPEATED: Final = 10  # refusals of one kind of request after which the log names the client


@dataclass(slots=True)
class _Refused:
    first_s: float
    count: int = 0


class RepeatedRefusals:
    """Counts one connection's refused requests by kind. Logs a kind once when it repeats, and its total at the end.

    Its memory is bounded by the number of kinds that the protocol has.
    """

    def __init__(self, peer: Callable[[], str], now_s: Callable[[], float]) -> None:
        """`peer` returns the client's address and version; `now_s` is any steady clock."""
        self._peer = peer
        self._now_s = now_s
        self._refused: dict[str, _Refused] = {}

    def add(self, request: str, topic: str, why: str) -> None:
        """Count a refusal. `request` is a kind of command, `topic` is empty where the request names none."""
        refused = self._refused.get(request)
        if refused is None:
            refused = self._refused[request] = _Refused(self._now_s())
        refused.count += 1
        if refused.count == REPEATED:
            logger.warning(
                "%s repeats a refused request: %s%s, %d times in %.1f s, last because: %s. This connection's"
                " further refusals are only counted, in vela_refused_requests_total and when it ends",
                self._peer(),
                request,
                f" for {_shown(topic)}" if topic else "",
                refused.count,
                self._now_s() - refused.first_s,
                _shown(why),
            )

    def ended(self) -> None:
        """The connection is gone: log the totals of the requests that it repeated."""
        for request, refused in self._refused.items():
            if refused.count > REPEATED:
                logger.warning(
                    "%s is gone: %s was refused %d times in %.1f s",
                    self._peer(),
                    request,
                    refused.count,
                    self._now_s() - refused.first_s,
                )
        self._refused.clear()


def _shown(text: str) -> str:
    """A client's text for the log: short, on one line."""
    return repr(text[:_MOST_SHOWN])[1:-1]
