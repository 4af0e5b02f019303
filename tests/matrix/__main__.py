"""make matrix: print the rows of docs/reference/behaviour.md with the tests that show them and their results.

A row has a broker's half, a client library's half, or both. A test marked with the row shows one half. Tests in
tests/*/client show the client's half. The exit code is 1 if any test failed or if a half has no test that passed. It
is also 1 if the client's half was not shown against a whole Vela over each transport.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.environment import PROJECT_DIR
from tests.matrix.behaviour import Row, read_rows
from tests.matrix.results import FAILED, PASSED, Outcome, read_results

__all__ = ["Report", "is_client_test", "is_whole_client_test", "report"]

BROKER: Final = "broker"
CLIENT: Final = "client"
TRANSPORTS: Final = ("tcp", "websocket")
PULLED: Final = ("S3.1", "S3.15", "S3.19")
"""Rows of the pull client, which has one transport, HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The lines to print, and the lines that say what is wrong."""

    lines: list[str]
    wrong: list[str]


def is_client_test(test: str) -> bool:
    """Return whether a test shows the client's half: it is in a folder tests/*/client."""
    return test.partition("::")[0].split("/")[2:3] == ["client"]


def is_whole_client_test(test: str) -> bool:
    """Return whether a test shows the client's half against a whole Vela: it is in tests/acceptance/client."""
    return test.startswith("tests/acceptance/client/")


def report(rows: Mapping[str, Row], results: Mapping[str, Mapping[str, Outcome]]) -> Report:
    """Report all rows with the tests of the broker's half, the tests of the client's half, and their results."""
    lines: list[str] = []
    wrong: list[str] = []
    for row in rows.values():
        lines.append(f"{row.name:<7}{row.side:<8}{row.statement}")
        for side in BROKER, CLIENT:
            found = {
                test: outcome
                for test, outcome in results.get(row.name, {}).items()
                if is_client_test(test) == (side == CLIENT)
            }
            lines += [f"{'':7}{side:<8}{outcome.result:<8} {test}" for test, outcome in found.items()]
            wrong += [
                f"{row.name}: {test}: {FAILED}" for test, outcome in found.items() if outcome.result == FAILED
            ]
            missing = list(_missing(row, side, found))
            lines += [f"{'':7}{side:<8}{each.upper()}" for each in missing]
            wrong += [f"{row.name}: {side}: {each}" for each in missing]
    return Report(lines=lines, wrong=wrong)


def _missing(row: Row, side: str, found: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield what this half of a row lacks."""
    if not (row.is_clients if side == CLIENT else row.is_brokers):
        return
    if not found:
        yield "no test"
    elif all(outcome.result != PASSED for outcome in found.values()):
        yield "no test passed"
    elif side == CLIENT:
        yield from _not_whole(row, [each for test, each in found.items() if is_whole_client_test(test)])


def _not_whole(row: Row, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if all(outcome.result != PASSED for outcome in outcomes):
        yield "not shown against a whole Vela"
    elif row.name not in PULLED:
        for transport in TRANSPORTS:
            if not any(transport in outcome.passed_with for outcome in outcomes):
                yield f"not shown against a whole Vela over {transport}"


def _run_tests(file: Path) -> int:
    """Run all tests that are marked with a row, and return pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "row", f"--junitxml={file}"]
    return subprocess.run(command, cwd=PROJECT_DIR, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument(
        "results", nargs="*", type=Path, help="JUnit files of an earlier run; without them, run the tests"
    )
    chosen = parser.parse_args(arguments).results
    code = 0
    if chosen:
        results = read_results(chosen)
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "results.xml")
            code = _run_tests(file)
            results = read_results([file] if file.exists() else [])
    rows = read_rows()
    answer = report(rows, results)
    print("\n".join(answer.lines))
    everything = {test for mine in results.values() for test in mine}
    clients = sum(map(is_client_test, everything))
    print(
        f"\n{len(rows)} rows; broker: {sum(row.is_brokers for row in rows.values())} rows,"
        f" {len(everything) - clients} tests; client: {sum(row.is_clients for row in rows.values())} rows,"
        f" {clients} tests"
    )
    for each in answer.wrong:
        print(each)
    return 1 if answer.wrong or code else 0


if __name__ == "__main__":
    sys.exit(main())
