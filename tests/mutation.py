"""make mutate: change modules of `core` packages, one small change at a time, and see whether their unit tests notice.

mutmut makes its changes in a copy of the tree. It tries every change that it knows on the modules that were drawn,
until the time is up. The same seed draws the same modules. Not every survivor is a fault of the tests: some changes
break nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from config.environment import PROJECT_DIR

__all__ = ["draw", "modules", "verdicts"]

TESTS: Final = {
    "broker/core": "tests/unit/core",
    "broker/doors/binary/wire": "tests/unit/doors/binary",
    "broker/doors/pull/wire": "tests/unit/doors/pull",
    "broker/doors/websocket/json": "tests/unit/doors/websocket/json",
    "vela/core": "tests/unit/client",
    "vela/wire": "tests/unit/wire",
}
"""The tests that must notice a change, by the folder of the changed module."""
MUTMUT: Final = str(Path(sys.executable).with_name("mutmut"))
NOT_TWICE: Final = "tests/unit/client/cli"
"""mutmut repeats tests in one process, where these would fail: the command line closes its log after the first run."""
GENERATED: Final = "vela/wire/pb/"
KILLED: Final = ("killed", "timeout", "segfault")
NOT_TRIED: Final = "not checked"
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".vela", "__pycache__", ".*_cache", ".hypothesis", "node_modules", "build", "*.egg-info"
)


def modules() -> list[str]:
    """Return every module that may be changed."""
    found = (
        path.relative_to(PROJECT_DIR).as_posix()
        for folder in TESTS
        for path in (PROJECT_DIR / folder).rglob("*.py")
    )
    return sorted(each for each in found if not each.startswith(GENERATED))


def draw(known: Sequence[str], count: int, seed: int) -> list[str]:
    """Choose `count` modules at random, or all if there are fewer."""
    return sorted(random.Random(seed).sample(known, min(count, len(known))))


def verdicts(drawn: Sequence[str], tree: Path, *, minutes: float) -> Iterator[tuple[str, str]]:
    """Copy the project to `tree`, try the mutants of these modules there, and yield each with its verdict."""
    shutil.copytree(PROJECT_DIR, tree, ignore=_NOT_COPIED)
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(_settings(drawn))
    _try_all(tree, minutes)
    for line in mutmut(tree, "results", "--all", "true").splitlines():
        name, _, verdict = line.strip().rpartition(": ")
        if verdict != NOT_TRIED:
            yield name, verdict


def _settings(drawn: Sequence[str]) -> str:
    tests = {mine for folder, mine in TESTS.items() for module in drawn if module.startswith(f"{folder}/")}
    settings = {
        "source_paths": ["broker", "vela"],
        "only_mutate": drawn,
        "also_copy": ["bench", "config", "console", "docs", "manage.py", "pipeline", "static", "templates"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", f"--ignore={NOT_TWICE}"],
        "pytest_add_cli_args_test_selection": sorted(tests),
    }
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    return "".join(["\n[tool.mutmut]\n", *lines])


def _try_all(tree: Path, minutes: float) -> None:
    environment = {**os.environ, "VELA_SHRINK": "0"}
    process = subprocess.Popen([MUTMUT, "run"], cwd=tree, env=environment, start_new_session=True)
    try:
        code = process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        code = 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code != 0:
        sys.exit(f"mutmut could not run: exit code {code}")


def mutmut(tree: Path, *arguments: str) -> str:
    """Run mutmut in this tree and return its output."""
    command = [MUTMUT, *arguments]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, encoding="utf-8").stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as broker/core/x.py; without them, some are drawn")
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--least", type=int, default=70, help="percent of mutants that must be killed")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(10**9)
    drawn = chosen.modules or draw(modules(), chosen.count, seed)
    print(f"seed {seed}: {', '.join(drawn)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="vela-mutate-") as folder:
        tree = Path(folder, "tree")
        became = dict(verdicts(drawn, tree, minutes=chosen.minutes))
        survivors = [name for name, verdict in became.items() if verdict not in KILLED]
        for name in survivors:
            print(f"\n{mutmut(tree, 'show', name).strip()}")
    killed = len(became) - len(survivors)
    share = 100 * killed / max(len(became), 1)
    print(f"\nseed {seed}: {killed} of {len(became)} mutants tried were killed, {share:.0f} %")
    return 0 if share >= chosen.least else 1


if __name__ == "__main__":
    sys.exit(main())
