"""Background loops that continue after a fault.

If such a loop ended, clients could wait forever without an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from broker.storage.away import is_away
from broker.storage.pool import first_line

__all__ = ["for_ever", "pause_after_faults_s"]

logger = logging.getLogger(__name__)

_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MOST_S: Final = 5.0


def pause_after_faults_s(faults: int) -> float:
    """Return how long to wait after this many faults in a row."""
    return float(min(_PAUSE_MOST_S, _PAUSE_FIRST_S * 2 ** min(faults - 1, 10)))


async def for_ever(turn: Callable[[], Awaitable[None]], *, what: str) -> None:
    """Run `turn` again and again until the task is cancelled. `what` names the loop in the log.

    If `turn` fails, the next call of `turn` must do the unfinished work.
    """
    faults = 0
    while True:
        try:
            await turn()
        except Exception as error:
            faults += 1
            pause_s = pause_after_faults_s(faults)
            if is_away(error):
                logger.info(
                    "%s: the database is unavailable (%s); next try in %.1f s",
                    what,
                    first_line(error),
                    pause_s,
                )
            else:
                logger.exception("%s failed; next try in %.1f s", what, pause_s)
            await asyncio.sleep(pause_s)
        else:
            faults = 0
