"""The programs that the check needs: found, or installed where that is possible."""

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
    """Something is not as it should be. The text is one sentence, with the output of what failed below it."""


def say(text: str) -> None:
    """One line for whoever watches."""
    sys.stdout.write(f"docker-check: {text}\n")
    sys.stdout.flush()


def until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Ask again and again until the condition holds; False when the time is over."""
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
    """Run a command to its end, whatever its exit code; standard error goes where standard output goes."""
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
    """Run a command that has to succeed and return what it said. Raises CheckFailed."""
    done = capture(command, env=env, cwd=cwd)
    if done.returncode != 0:
        shown = " ".join(str(part) for part in command[:6])
        raise CheckFailed(
            f"`{shown} …` ended with exit code {done.returncode}:\n{done.stdout.strip()[-4000:]}"
        )
    return done.stdout


def own_python(folder: Path) -> Path:
    """The Python of an environment in `folder` that has pip, made at the first call."""
    environment = folder / "python"
    if not environment.exists():
        run([sys.executable, "-m", "venv", environment])
    return environment / "bin" / "python"


def need(programs: Mapping[str, str]) -> None:
    """Make sure of programs, named with the Debian package that has each. Raises CheckFailed where one stays away."""
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
