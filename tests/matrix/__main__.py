"""make matrix: rows, tests and results, with no row missing.

A half of a row, the broker's or the client library's, is shown by a test named by the row: the client's lie in
tests/*/client. Exit code 1 when a half has no test, none that passed, or no patch where it needs one, when the client's
was not shown against a whole Vela over each transport, or when any test failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.environment import PROJECT_DIR
from tests.matrix.behaviour import Row, read_rows
from tests.matrix.collecting import is_client_test, is_whole_client_test, row_tests
from tests.matrix.patches import read_patches
from tests.matrix.results import PASSED, SKIPPED, Outcome, outcome_of, read_outcomes

__all__ = ["Report", "patched_halves", "report"]

BROKER: Final = "broker"
CLIENT: Final = "client"
TRANSPORTS: Final = ("tcp", "websocket")
PULLED: Final = ("S3.1", "S3.15", "S3.19")
"""Rows of the pull client, which has one transport, HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is printed, and what is wrong."""

    lines: list[str]
    wrong: list[str]


def report(
    rows: Mapping[str, Row],
    tests: Mapping[str, Sequence[str]],
    outcomes: Mapping[tuple[str, str], Outcome],
    patched: AbstractSet[tuple[str, str]],
) -> Report:
    """All rows with the broker's tests, the client's and their results; `patched` is of (row, side)."""
    lines: list[str] = []
    wrong = [f"{name} has tests and no row" for name in tests if name not in rows]
    for row in rows.values():
        lines.append(f"{row.name:<7}{row.side:<8}{row.statement}")
        for side in BROKER, CLIENT:
            found = {
                test: outcome_of(test, outcomes)
                for test in tests.get(row.name, ())
                if is_client_test(test) == (side == CLIENT)
            }
            lines += [f"{'':7}{side:<8}{outcome.result:<8} {test}" for test, outcome in found.items()]
            wrong += [
                f"{row.name}: {test}: {outcome.result}"
                for test, outcome in found.items()
                if outcome.result not in (PASSED, SKIPPED)
            ]
            missing = list(_missing(row, side, found, patched))
            lines += [f"{'':7}{side:<8}{each.upper()}" for each in missing]
            wrong += [f"{row.name}: {side}: {each}" for each in missing]
    return Report(lines=lines, wrong=wrong)


def _missing(
    row: Row, side: str, found: Mapping[str, Outcome], patched: AbstractSet[tuple[str, str]]
) -> Iterator[str]:
    """What this half of a row lacks. A patch of the client's half is asked for where the row is wholly its own."""
    has_part = row.is_clients if side == CLIENT else row.is_brokers
    if not has_part:
        return
    if not found:
        yield "no test"
    elif all(outcome.result != PASSED for outcome in found.values()):
        yield "no test passed"
    elif side == CLIENT:
        yield from _not_whole(row, [each for test, each in found.items() if is_whole_client_test(test)])
    if (side == BROKER or not row.is_brokers) and (row.name, side) not in patched:
        yield "no patch"


def _not_whole(row: Row, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if all(outcome.result != PASSED for outcome in outcomes):
        yield "not shown against a whole Vela"
    elif row.name not in PULLED:
        for transport in TRANSPORTS:
            if not any(transport in outcome.passed_with for outcome in outcomes):
                yield f"not shown against a whole Vela over {transport}"


def patched_halves() -> set[tuple[str, str]]:
    """(row, side) of every patch."""
    return {(patch.row, CLIENT if patch.is_clients else BROKER) for patch in read_patches()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument(
        "results", nargs="*", type=Path, help="JUnit files of a run that was; else the tests are run"
    )
    chosen = parser.parse_args(arguments).results
    rows, tests = read_rows(), row_tests()
    if chosen:
        outcomes = read_outcomes(chosen)
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "results.xml")
            chosen_tests = sorted({test for mine in tests.values() for test in mine})
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", f"--junitxml={file}", *chosen_tests],
                cwd=PROJECT_DIR,
                check=False,
            )
            outcomes = read_outcomes([file])
    answer = report(rows, tests, outcomes, patched_halves())
    print("\n".join(answer.lines))
    everything = {test for mine in tests.values() for test in mine}
    clients = sum(map(is_client_test, everything))
    print(
        f"\n{len(rows)} rows; broker: {sum(row.is_brokers for row in rows.values())} rows,"
        f" {len(everything) - clients} tests; client: {sum(row.is_clients for row in rows.values())} rows,"
        f" {clients} tests; {len(read_patches())} patches"
    )
    for each in answer.wrong:
        print(each)
    return 1 if answer.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
