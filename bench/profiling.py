"""Profile the broker from outside with py-spy, which must be installed, during a question of the benchmark."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["profiled", "top"]

_PER_S = 200
_WAITING = "select (selectors.py"


@contextmanager
def profiled(pid: int, path: Path) -> Iterator[None]:
    """Sample a process into `path` (collapsed stacks, as flame graphs take them). Needs py-spy on PATH."""
    program = shutil.which("py-spy")
    if program is None:
        raise SystemExit("--profile needs py-spy on PATH: pip install py-spy, into a separate environment")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [program, "record", "--pid", str(pid), "--rate", str(_PER_S), "--format", "raw"]
    with subprocess.Popen(
        [*command, "--duration", "100000", "--output", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def top(stacks: str, count: int = 15) -> list[str]:
    """Return the functions found most often at the top of a stack, in percent of the samples.

    `stacks` is the text that `profiled` wrote. Samples in which the broker waited for events do not count.
    """
    own: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, samples = line.rpartition(" ")
        last = stack.rpartition(";")[2]
        if _WAITING not in last:
            own[last.rpartition(":")[0] or last] += int(samples)
    total = max(1, own.total())
    return [f"{100 * samples / total:5.1f} %  {function})" for function, samples in own.most_common(count)]
