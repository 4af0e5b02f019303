"""How a job gives way to the broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SESSION = Path("/proc/self/autogroup")
TELL = """
import json, os, pathlib, subprocess, sys
from pipeline.priority import give_way
give_way(7)
session = pathlib.Path("/proc/self/autogroup")
child = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], capture_output=True, text=True)
print(json.dumps([os.nice(0), int(child.stdout), session.read_text().split()[-1] if session.exists() else ""]))
"""


def told(*, leads_a_session: bool) -> list[Any]:
    """The niceness of a process after `give_way(7)`, of a child of it, and of its session."""
    done = subprocess.run(
        [sys.executable, "-c", TELL],
        start_new_session=leads_a_session,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def test_a_process_and_its_children_give_way() -> None:
    mine = os.nice(0)
    session = SESSION.read_text().split()[-1] if SESSION.exists() else ""
    assert told(leads_a_session=False) == [mine + 7, mine + 7, session]


@pytest.mark.skipif(not SESSION.exists(), reason="this kernel has no autogroups")
def test_a_session_of_its_own_gives_way_too() -> None:
    assert told(leads_a_session=True)[2] == "7"
