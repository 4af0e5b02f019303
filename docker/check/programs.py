"""Find the programs that the check needs, or install them if possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

__all__ = ["PROJECT_DIR", "CheckFailed", "capture", "need", "own_python", "run", "say", "until"]

PROJECT_DIR = Path(__file__).resolve().parents[2]


class CheckFailed(Exception):
    """A check has failed. The text is one sentence, followed by the output of the command that failed."""


def say(text: str) -> None:
    """Print a line of progress."""
    sys.stdout.write(f"docker-check: {text}\n")
    sys.stdout.flush()


def until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Poll until the condition is true. Return False if the time runs out."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.2)
    return True


def capture(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 1800,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit code. Its output includes standard error."""
    return subprocess.run(
        command,
        env=env,
        cwd=cwd or PROJECT_DIR,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def run(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run a command that must succeed, and return its output. Raises CheckFailed."""
    done = capture(command, env=env, cwd=cwd)
    if done.returncode != 0:
        shown = " ".join(str(part) for part in command[:6])
        raise CheckFailed(
            f"`{shown} …` ended with exit code {done.returncode}:\n{done.stdout.strip()[-4000:]}"
        )
    return done.stdout


def own_python(folder: Path) -> Path:
    """Return the Python of an environment with pip in `folder`, which the first call creates."""
    environment = folder / "python"
    if not environment.exists():
        run([sys.executable, "-m", "venv", environment])
    return environment / "bin" / "python"


def need(programs: Mapping[str, str]) -> None:
    """Install missing programs from the Debian packages that have them. Raises CheckFailed if one is still missing."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    missing = {package for program, package in programs.items() if shutil.which(program, path=path) is None}
    if not missing:
        return
    names = " ".join(sorted(missing))
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CheckFailed(
            f"These Debian packages are missing and can only be installed as root on Debian: {names}"
        )
    say(f"installing {names}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update"], env=env)
    run(["apt-get", "install", "--yes", "--no-install-recommends", *sorted(missing)], env=env)
