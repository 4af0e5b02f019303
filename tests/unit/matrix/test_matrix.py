"""`make matrix`: it reads behaviour.md, the tests marked with its rows and their results, and reports faults."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from config.environment import PROJECT_DIR
from tests.matrix.__main__ import is_client_test, is_whole_client_test, report
from tests.matrix.behaviour import BadPage, Row, read_rows, rows_in
from tests.matrix.results import FAILED, PASSED, SKIPPED, Outcome, read_results

ROWS = {
    "S1.1": Row(name="S1.1", side="broker", statement="A."),
    "S1.2": Row(name="S1.2", side="both", statement="B."),
    "S2.1": Row(name="S2.1", side="client", statement="C."),
}
MARKED = """
import pytest

@pytest.mark.row("S1.1", "I2")
@pytest.mark.parametrize("x", [0, 1])
def test_a(x): assert x == 0

class TestB:
    @pytest.mark.row("S1.1")
    def test_b(self): pass

@pytest.mark.row("I3")
@pytest.mark.parametrize("x", [0, pytest.param(1, marks=pytest.mark.row("I4"))])
def test_c(x):
    if x == 0: pytest.skip()

@pytest.mark.row("I5")
@pytest.mark.skip
def test_d(): pass

@pytest.mark.row("I6")
@pytest.mark.parametrize(("link", "x"), [("tcp", 0), ("websocket", 0), ("http", 1)])
def test_e(link, x):
    if x: pytest.skip()

def test_f(): pass
"""


def test_no_row_of_the_semantics_is_missing() -> None:
    counts = {"S0": 51, "S1": 19, "S2": 18, "S3": 21, "S4": 32}
    expected = [f"{part}.{number}" for part, most in counts.items() for number in range(1, most + 1)]
    expected += [f"I{number}" for number in range(1, 28)]
    assert list(read_rows()) == expected


def test_every_half_of_every_row_has_its_tests() -> None:
    marked: dict[str, dict[str, Outcome]] = {}
    for path in (PROJECT_DIR / "tests").rglob("test_*.py"):
        for marks in re.findall(r"\bpytest\.mark\.row\(([^)]*)\)", path.read_text(encoding="utf-8")):
            for row in re.findall(r'"([^"]+)"', marks):
                marked.setdefault(row, {})[path.relative_to(PROJECT_DIR).as_posix()] = EVERYWHERE
    assert report(read_rows(), marked).wrong == []


@pytest.mark.parametrize(
    "line", ["| S1.1 | broker | A. |\n| S1.1 | broker | B. |", "| S1.1 | server | A. |", "| S1.1 |  | A. |"]
)
def test_a_page_with_a_wrong_row_is_refused(line: str) -> None:
    with pytest.raises(BadPage, match=r"S1\.1"):
        rows_in(line)


def run(tmp_path: Path, source: str) -> tuple[str, Path]:
    """Run pytest on a file with this text, and return its output and its JUnit file."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = row: a row\n")
    (tmp_path / "test_x.py").write_text(source)
    file = tmp_path / "junit.xml"
    options = ["-p", "no:django", "-p", "no:cacheprovider", "-p", "tests.matrix.marks", f"--junitxml={file}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=PROJECT_DIR,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ran.stdout + ran.stderr, file


def test_rows_of_tests_and_of_single_cases_come_with_their_results(tmp_path: Path) -> None:
    _, file = run(tmp_path, MARKED)
    results = read_results([file])
    assert {row: {test: each.result for test, each in tests.items()} for row, tests in results.items()} == {
        "S1.1": {"test_x.py::test_a": FAILED, "test_x.py::TestB::test_b": PASSED},
        "I2": {"test_x.py::test_a": FAILED},
        "I3": {"test_x.py::test_c": PASSED},
        "I4": {"test_x.py::test_c": PASSED},
        "I5": {"test_x.py::test_d": SKIPPED},
        "I6": {"test_x.py::test_e": PASSED},
    }
    assert results["S1.1"]["test_x.py::test_a"].passed_with == {"0"}
    assert results["I6"]["test_x.py::test_e"].passed_with == {"tcp", "websocket", "0"}


def test_a_test_of_no_row_stops_the_run(tmp_path: Path) -> None:
    said, _ = run(tmp_path, 'import pytest\n@pytest.mark.row("S9.9")\ndef test_a(): pass\n')
    assert "test_x.py::test_a: docs/reference/behaviour.md has no row S9.9" in said


CLIENTS = "tests/acceptance/client/test_c.py::test_three"
ONE = "tests/a.py::test_one"
TWO = "tests/a.py::test_two"
PASS = Outcome(result=PASSED)
EVERYWHERE = Outcome(result=PASSED, passed_with={"tcp", "websocket"})


def wrong_with(one: Outcome, two: Outcome) -> list[str]:
    """Return the faults found when each half of a row has one test. The tests of the client's halves pass."""
    known = {"S1.1": {ONE: one}, "S1.2": {TWO: two, CLIENTS: EVERYWHERE}, "S2.1": {CLIENTS: EVERYWHERE}}
    return report(ROWS, known).wrong


def test_a_row_whose_tests_passed_has_no_fault() -> None:
    assert wrong_with(PASS, PASS) == []


@pytest.mark.parametrize("result", [FAILED, SKIPPED])
def test_a_row_whose_only_test_did_not_pass_is_reported(result: str) -> None:
    assert wrong_with(PASS, Outcome(result=result))[-1] == "S1.2: broker: no test passed"


def test_halves_of_rows_without_test_are_wrong() -> None:
    answer = report(ROWS, {"S1.1": {ONE: PASS}})
    assert answer.wrong == ["S1.2: broker: no test", "S1.2: client: no test", "S2.1: client: no test"]
    assert [line.split()[0] for line in answer.lines if not line.startswith(" ")] == list(ROWS)
    assert answer.lines[-1].split() == ["client", "NO", "TEST"]


def test_a_test_of_one_side_shows_nothing_about_the_other() -> None:
    known = {"S1.1": {CLIENTS: EVERYWHERE}, "S1.2": {CLIENTS: EVERYWHERE}, "S2.1": {ONE: PASS}}
    assert report(ROWS, known).wrong == [
        "S1.1: broker: no test",
        "S1.2: broker: no test",
        "S2.1: client: no test",
    ]


def test_a_failing_test_of_the_client_is_wrong() -> None:
    answer = report({"S2.1": ROWS["S2.1"]}, {"S2.1": {CLIENTS: Outcome(result=FAILED)}})
    assert answer.wrong == [f"S2.1: {CLIENTS}: {FAILED}", "S2.1: client: no test passed"]


@pytest.mark.parametrize(
    ("test", "outcome", "lacks"),
    [
        (CLIENTS, PASS, ["over tcp", "over websocket"]),
        (CLIENTS, Outcome(result=PASSED, passed_with={"tcp"}), ["over websocket"]),
        (CLIENTS.replace("acceptance", "unit"), EVERYWHERE, [""]),
    ],
)
def test_a_clients_row_is_shown_against_a_whole_vela_over_each_transport(
    test: str, outcome: Outcome, lacks: list[str]
) -> None:
    answer = report({"S2.1": ROWS["S2.1"]}, {"S2.1": {test: outcome}})
    assert answer.wrong == [f"S2.1: client: not shown against a whole Vela {each}".rstrip() for each in lacks]


def test_the_pull_client_has_one_transport() -> None:
    rows = {"S3.1": Row(name="S3.1", side="both", statement="D.")}
    assert report(rows, {"S3.1": {CLIENTS: PASS, ONE: PASS}}).wrong == []


def test_the_clients_tests_are_known_by_their_folder() -> None:
    assert is_client_test(CLIENTS)
    assert is_client_test("tests/integration/client/deeper/test_x.py::TestY::test_z")
    assert not is_client_test("tests/unit/wire/client.py::test_x")
    assert not is_client_test("tests/acceptance/test_client.py::test_x")
    assert is_whole_client_test(CLIENTS)
    assert not is_whole_client_test("tests/integration/client/test_x.py::test_x")
