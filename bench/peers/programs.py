"""Run the programs that the comparison needs: compilers, servers, the load generator."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.usage import cpu_s
from config.run.children.lifeline import dies_with_parent
from tests.support.waiting import wait_until

__all__ = ["ProgramFailed", "output_of", "serving"]

_START_TIMEOUT_S: Final = 60.0


class ProgramFailed(Exception):
    """A program is not installed, or it failed. The message names it."""


@contextmanager
def serving(
    command: Sequence[str],
    folder: Path,
    is_ready: Callable[[], bool],
    *,
    patience_s: float = _START_TIMEOUT_S,
) -> Iterator[Callable[[], Mapping[str, float]]]:
    """Run a server in `folder` while the block runs. Yield a function that returns its CPU time.

    Prints the server's output and raises ProgramFailed if the server ends before it is ready.
    """
    output = folder / "output"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        ) as child,
    ):

        def ready() -> bool:
            if child.poll() is not None:
                sys.stderr.write(output.read_text(encoding="utf-8", errors="replace"))
                raise ProgramFailed(f"{command[0]} ended with {child.returncode}; its output is above")
            return is_ready()

        try:
            wait_until(ready, f"{command[0]} to get ready", timeout_s=patience_s)
            yield lambda: {"server": cpu_s(child.pid, ended_children=False)}
        finally:
            # Nobody needs the server's data, and Pulsar takes a long time to stop.
            child.kill()


def output_of(command: Sequence[str], folder: Path) -> str:
    """Run a program to its end and return its output. Raises ProgramFailed if it is not installed or fails."""
    try:
        done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise ProgramFailed(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise ProgramFailed(f"{' '.join(command)}: exit code {error.returncode}\n{error.stdout}") from None
    return done.stdout
