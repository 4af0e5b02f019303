"""make mutate: apply patches drawn at random to a copy of the tree; each must make its tests fail.

Exit code 1 when a patch's test still passes, or when a test fails without its patch.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.environment import PROJECT_DIR
from tests.matrix.patches import Patch, apply, read_patches
from tests.matrix.results import FAILED, PASSED, Outcome, outcome_of, read_outcomes

__all__ = ["Verdict", "draw", "survivors"]

# A broken program may wait for ever: not passing in this time counts as failing.
TIMEOUT_S: Final = 180.0
STUCK: Final = "the tests did not end"
Outcomes = dict[tuple[str, str], Outcome]
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".vela", "__pycache__", ".*_cache", ".hypothesis", "node_modules", "build", "*.egg-info"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one patch."""

    patch: str
    complaint: str  # empty: it was noticed, by every test that it names
    took_s: float


class Copy:
    """The tree somewhere else, with one patch at a time."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "tree"
        self._report = folder / "results.xml"
        self._changes = 0
        shutil.copytree(PROJECT_DIR, self._root, ignore=_NOT_COPIED)

    def run(self, tests: Sequence[str]) -> Outcomes | str:
        """Run tests; what became of them, or why it is not known."""
        self._report.unlink(missing_ok=True)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                f"--junitxml={self._report}",
                *tests,
            ],
            cwd=self._root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "HYPOTHESIS_STORAGE_DIRECTORY": str(self._root / ".hypothesis"),
                "VELA_SHRINK": "0",
            },
            start_new_session=True,
        )
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return STUCK
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code not in (0, 1) or not self._report.exists():
            return f"pytest could not run {', '.join(tests)}: exit code {code}"
        return read_outcomes([self._report])

    def try_patch(self, patch: Patch) -> Verdict:
        """Apply it, run its tests, take it back."""
        begun_s = time.monotonic()
        before: dict[str, str] = {}

        def read(path: str) -> str:
            before[path] = (self._root / path).read_text(encoding="utf-8")
            return before[path]

        apply(patch, read, self._write)
        try:
            outcomes = self.run(patch.tests)
        finally:
            for path, text in before.items():
                self._write(path, text)
        return Verdict(
            patch=patch.name, complaint=_complaint(patch, outcomes), took_s=time.monotonic() - begun_s
        )

    def _write(self, path: str, text: str) -> None:
        file = self._root / path
        file.write_text(text, encoding="utf-8")
        # Bytecode is matched by size and whole seconds: no two versions may share them.
        self._changes += 1
        os.utime(file, (self._changes, self._changes))


def _complaint(patch: Patch, outcomes: Outcomes | str) -> str:
    if isinstance(outcomes, str):
        return "" if outcomes == STUCK else outcomes
    passed = [test for test in patch.tests if outcome_of(test, outcomes).result != FAILED]
    return f"not noticed by {', '.join(passed)}" if passed else ""


def _unfit(patch: Patch, unpatched: Outcomes | str) -> Verdict | None:
    """A verdict where applying it would say nothing: its tests must pass without it."""
    if isinstance(unpatched, str):
        return Verdict(patch=patch.name, complaint=f"without any patch: {unpatched}", took_s=0.0)
    wrong = [
        f"{test}: {result} without it"
        for test in patch.tests
        if (result := outcome_of(test, unpatched).result) != PASSED
    ]
    return Verdict(patch=patch.name, complaint="; ".join(wrong), took_s=0.0) if wrong else None


def draw(patches: Sequence[Patch], count: int, seed: int) -> list[Patch]:
    """`count` of them, or all there are, at random."""
    return random.Random(seed).sample(patches, min(count, len(patches)))


def survivors(patches: Sequence[Patch], *, say: bool = False) -> list[Verdict]:
    """Try these patches, one after the other in one copy; the verdicts with a complaint."""
    found: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="vela-mutate-") as folder:
        os.chmod(folder, 0o755)  # PostgreSQL, as another user, must reach what tests put below it
        copy = Copy(Path(folder))
        unpatched = copy.run(sorted({test for patch in patches for test in patch.tests}))
        for patch in patches:
            verdict = _unfit(patch, unpatched) or copy.try_patch(patch)
            if verdict.complaint:
                found.append(verdict)
            if say:
                print(
                    f"{verdict.took_s:6.1f} s  {verdict.patch:<24} {verdict.complaint or 'noticed'}",
                    flush=True,
                )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("patches", nargs="*", help="names of patches; else they are drawn")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--unit", action="store_true", help="only patches whose tests need no server")
    chosen = parser.parse_args(arguments)
    known = read_patches()
    if chosen.patches:
        unknown = set(chosen.patches) - {patch.name for patch in known}
        if unknown:
            parser.error(f"no such patch: {', '.join(sorted(unknown))}")
        drawn = [patch for patch in known if patch.name in chosen.patches]
    else:
        seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(10**9)
        drawn = draw([p for p in known if p.needs_nothing or not chosen.unit], chosen.count, seed)
        print(f"seed {seed}: {len(drawn)} of {len(known)} patches", flush=True)
    wrong = survivors(drawn, say=True)
    print(f"{len(drawn)} patches, {len(wrong)} not noticed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
