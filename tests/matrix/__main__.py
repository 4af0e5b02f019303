"""make matrix: rows, tests and results, with no row missing.

Exit code 1 when a row that the broker has a part in has no test, no patch, or a test that did not pass.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from config.environment import PROJECT_DIR
from tests.matrix.behaviour import Row, read_rows
from tests.matrix.collecting import row_tests
from tests.matrix.patches import read_patches
from tests.matrix.results import PASSED, SKIPPED, read_results, result_of

__all__ = ["Report", "report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is printed, and what is wrong."""

    lines: list[str]
    wrong: list[str]


def report(
    rows: Mapping[str, Row],
    tests: Mapping[str, Sequence[str]],
    results: Mapping[tuple[str, str], str],
    patched: Mapping[str, int],
) -> Report:
    """All rows with their tests and results; `patched` counts the patches of each row."""
    lines: list[str] = []
    wrong = [f"{name} has tests and no row" for name in tests if name not in rows]
    for row in rows.values():
        mine = tests.get(row.name, ())
        lines.append(f"{row.name:<7}{row.side:<8}{row.statement}")
        if not row.is_ours and not mine:
            lines.append(" " * 15 + "shown by the SDK's tests")
            continue
        found = {test: result_of(test, results) for test in mine}
        lines += [f"{'':15}{result:<8} {test}" for test, result in found.items()]
        complaints = [
            f"{test}: {result}" for test, result in found.items() if result not in (PASSED, SKIPPED)
        ]
        if row.is_ours and not mine:
            complaints.append("no test")
        elif row.is_ours and PASSED not in found.values():
            complaints.append("no test passed")
        if row.is_ours and not patched.get(row.name):
            complaints.append("no patch")
        lines += [" " * 15 + each.upper() for each in complaints if each.startswith("no ")]
        wrong += [f"{row.name}: {each}" for each in complaints]
    return Report(lines=lines, wrong=wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument(
        "results", nargs="*", type=Path, help="JUnit files of a run that was; else the tests are run"
    )
    chosen = parser.parse_args(arguments).results
    rows, tests = read_rows(), row_tests()
    if chosen:
        results = read_results(chosen)
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "results.xml")
            everything = sorted({test for mine in tests.values() for test in mine})
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", f"--junitxml={file}", *everything],
                cwd=PROJECT_DIR,
                check=False,
            )
            results = read_results([file])
    patched: dict[str, int] = {}
    for patch in read_patches():
        patched[patch.row] = patched.get(patch.row, 0) + 1
    answer = report(rows, tests, results, patched)
    print("\n".join(answer.lines))
    ours = sum(row.is_ours for row in rows.values())
    shown = sum(len(mine) for mine in tests.values())
    print(
        f"\n{len(rows)} rows, {ours} of them with a part for the broker; {shown} tests, {sum(patched.values())} patches"
    )
    for each in answer.wrong:
        print(each)
    return 1 if answer.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
