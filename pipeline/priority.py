"""Let a job's processes give way to the broker's, if both run on one machine."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

__all__ = ["give_way"]

logger = logging.getLogger(__name__)

_OF_SESSION: Final = Path("/proc/self/autogroup")


def give_way(niceness: int) -> None:
    """Add to the niceness of this thread, and of all threads and processes that it starts from now on.

    Linux can divide the processor among sessions first (autogroups), and then niceness counts only within a session.
    So a process that leads a session, as a worker's job does, gives its session the same niceness. A process that does
    not lead its session leaves the session as it is, because the user's other programs are in it. Call this function
    once, because each call adds to the niceness of the threads.
    """
    os.nice(niceness)
    if os.getsid(0) != os.getpid():
        return
    try:
        _OF_SESSION.write_text(str(niceness), encoding="ascii")
    except FileNotFoundError:
        return  # a kernel without autogroups
    except OSError as error:  # Linux lets a user change only one autogroup in 0.1 s
        logger.warning("the niceness of the job's session stays as it is: %s", error.strerror)
