"""Two processes as one role: they stop together and end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from config.environment import PROJECT_DIR

# Each of the two processes prints its id and then waits for a signal.
_PAIR = """
import sys
from docker.together import run_together
say = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
sys.exit(run_together([[sys.executable, "-c", say]] * 2, {}))
"""
TIMEOUT_S = 20


@pytest.fixture
def pair() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    with subprocess.Popen(
        [sys.executable, "-c", _PAIR], cwd=PROJECT_DIR, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        children = [int(process.stdout.readline()) for _ in range(2)]
        try:
            yield process, children
        finally:
            process.kill()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_both_processes_and_the_result_is_a_success(
    pair: tuple[subprocess.Popen[str], list[int]], number: signal.Signals
) -> None:
    process, children = pair
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == 0
    assert all(gone(pid) for pid in children)


@pytest.mark.parametrize("which", [0, 1])
def test_when_one_process_is_killed_the_other_ends_too_and_the_result_is_a_failure(
    pair: tuple[subprocess.Popen[str], list[int]], which: int
) -> None:
    process, children = pair
    os.kill(children[which], signal.SIGKILL)
    assert process.wait(TIMEOUT_S) == 1
    assert all(gone(pid) for pid in children)
