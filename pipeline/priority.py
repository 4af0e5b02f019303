"""Lower the priority of a job's processes, so that the broker runs first if both run on one machine."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import struct
from pathlib import Path
from typing import Final

__all__ = ["give_way"]

logger = logging.getLogger(__name__)

_OF_SESSION: Final = Path("/proc/self/autogroup")
_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}  # Linux's number of the system call
_SLICE_NS: Final = 100_000_000  # the longest that Linux grants


def give_way(niceness: int) -> None:
    """Add to the niceness of this thread, and of all threads and processes that it starts from now on.

    Linux can divide the processor among sessions first (autogroups), and then niceness counts only within a session.
    So a process that leads a session, as a worker's job does, gives its session the same niceness. A process that does
    not lead its session leaves the session as it is, because the user's other programs are in it. Call this function
    once, because each call adds to the niceness of the threads.
    """
    if not niceness:
        return
    _ask_for_long_slices(os.nice(niceness))
    if os.getsid(0) != os.getpid():
        return
    try:
        _OF_SESSION.write_text(str(niceness), encoding="ascii")
    except FileNotFoundError:
        return  # a kernel without autogroups
    except OSError as error:  # Linux lets a user change only one autogroup in 0.1 s
        logger.warning("the niceness of the job's session stays as it is: %s", error.strerror)


def _ask_for_long_slices(niceness: int) -> None:
    """Ask for long time slices, so that other processes' threads can interrupt this thread as soon as they wake.

    Niceness decides only how much CPU time each thread gets. With equal slices, a thread of the broker that wakes
    waits until the job's thread has used up its slice. During a full read, the median latency of a message was 4.5
    ms with equal slices and 2.2 ms with long ones. Linux before 6.12 accepts the call and ignores the slice. Python
    has no function for this system call.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        return
    policy = os.sched_getscheduler(0)  # the call below sets it again; the user may have chosen one
    if policy not in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE):
        return  # a real-time policy, which has no such slices
    # struct sched_attr in its first version: size, policy, flags, nice, priority, runtime, deadline, period
    attributes = struct.pack("=IIQiIQQQ", 48, policy, 0, niceness, 0, _SLICE_NS, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 0, attributes, 0):  # a container may forbid it
        logger.warning("the job's time slices stay as they are: %s", os.strerror(ctypes.get_errno()))
