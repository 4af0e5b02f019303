"""How a job gives way to the broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

TELL = """
import json, os, pathlib, subprocess, sys
from pipeline.priority import give_way
give_way(int(sys.argv[1]))
session = pathlib.Path("/proc/self/autogroup")
child = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], capture_output=True, text=True)
print(json.dumps([os.nice(0), int(child.stdout), session.read_text() if session.exists() else ""]))
"""


def told(niceness: int, *, leads_a_session: bool) -> list[Any]:
    """Return the niceness of a process after `give_way`, that of its child, and its session's text in `/proc`.

    The text is empty where the kernel has autogroups, but they are switched off, as in some containers.
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
    assert told(7, leads_a_session=False) == [mine + 7, mine + 7, session]


def test_a_process_in_its_own_session_gives_way_too() -> None:
    if not told(0, leads_a_session=True)[2]:
        pytest.skip("this kernel gives a session no group of its own")
    assert told(7, leads_a_session=True)[2].endswith("nice 7\n")
