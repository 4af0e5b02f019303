"""How a job lowers its priority so that the broker runs first."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TELL = """
import json, os, pathlib, subprocess, sys
from pipeline.priority import give_way
give_way(int(sys.argv[1]))
session = pathlib.Path("/proc/self/autogroup")
child = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], capture_output=True, text=True)
scheduling = subprocess.run(["cat", "/proc/self/sched"], capture_output=True, text=True).stdout
slices = [line.split()[-1] for line in scheduling.splitlines() if line.startswith("se.slice")]
print(json.dumps([os.nice(0), int(child.stdout), session.read_text() if session.exists() else "", slices]))
"""

# The first kernel release in which a program can choose the slices of an ordinary thread.
CHOOSES_SLICES = (6, 12)


def told(niceness: int, *, leads_a_session: bool) -> list[Any]:
    """Return a process's niceness after `give_way`, its child's niceness, its autogroup, and its child's slice.

    The last two are read from `/proc`. The autogroup is a text, which is empty if the kernel has switched autogroups
    off, as in some containers. The slice is a list with one number of nanoseconds, or empty if the kernel hides it.
    """
    done = subprocess.run(
        [sys.executable, "-c", TELL, str(niceness)],
        start_new_session=leads_a_session,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def test_a_process_and_its_children_give_way() -> None:
    mine = os.nice(0)
    session = told(0, leads_a_session=False)[2]
    assert told(7, leads_a_session=False)[:3] == [mine + 7, mine + 7, session]


def test_a_process_in_its_own_session_gives_way_too() -> None:
    if not told(0, leads_a_session=True)[2]:
        pytest.skip("this kernel gives a session no group of its own")
    assert told(7, leads_a_session=True)[2].endswith("nice 7\n")


def test_a_thread_of_the_broker_that_wakes_interrupts_a_job_and_its_children() -> None:
    if not Path("/proc/self/sched").exists():
        pytest.skip("this kernel does not tell the length of slices")
    if tuple(int(number) for number in platform.release().split(".")[:2]) < CHOOSES_SLICES:
        pytest.skip("this kernel gives all threads the same slice")
    assert told(7, leads_a_session=False)[3] == ["100000000"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these policies")
def test_a_job_keeps_the_scheduling_policy_that_its_user_chose() -> None:
    chosen = "import os; os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))"
    gives_way = "from pipeline.priority import give_way; give_way(1); print(os.sched_getscheduler(0))"
    done = subprocess.run(
        [sys.executable, "-c", f"{chosen}; {gives_way}"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == os.SCHED_BATCH


def test_a_job_that_does_not_give_way_keeps_its_slices() -> None:
    assert told(0, leads_a_session=False)[3] != ["100000000"]
