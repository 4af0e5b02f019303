"""The page of behaviour, tests by name, results, and what `make matrix` says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.__main__ import patched_halves, report
from tests.matrix.behaviour import BadPage, Row, read_rows, rows_in
from tests.matrix.collecting import find_tests, is_client_test, is_whole_client_test, row_tests, rows_of
from tests.matrix.results import FAILED, NOT_RUN, PASSED, SKIPPED, Outcome, outcome_of, read_outcomes

ROWS = {
    "S1.1": Row(name="S1.1", side="broker", statement="A."),
    "S1.2": Row(name="S1.2", side="both", statement="B."),
    "S2.1": Row(name="S2.1", side="client", statement="C."),
}
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_s1_1_a[0]"/>
<testcase classname="tests.unit.test_a" name="test_s1_1_a[1]"><failure message="no"/></testcase>
<testcase classname="tests.unit.test_a.TestB" name="test_s1_2_b"/>
<testcase classname="tests.unit.test_a" name="test_c[0]"><skipped/></testcase>
<testcase classname="tests.unit.test_a" name="test_c[1]"/>
<testcase classname="tests.unit.test_a" name="test_d"><skipped/></testcase>
<testcase classname="tests.unit.test_a" name="test_f[tcp-0]"/>
<testcase classname="tests.unit.test_a" name="test_f[0-websocket]"/>
<testcase classname="tests.unit.test_a" name="test_f[http]"><skipped/></testcase>
</testsuite></testsuites>"""


def test_no_row_is_missing() -> None:
    counts = {"S0": 51, "S1": 19, "S2": 18, "S3": 21, "S4": 32}
    expected = [f"{part}.{number}" for part, most in counts.items() for number in range(1, most + 1)]
    expected += [f"I{number}" for number in range(1, 26)]
    assert list(read_rows()) == expected


def test_every_half_of_every_row_has_its_tests_and_patches() -> None:
    tests = row_tests()
    everywhere = {key_of(test): EVERYWHERE for mine in tests.values() for test in mine}
    assert report(read_rows(), tests, everywhere, patched_halves()).wrong == []


def test_every_test_named_by_a_row_names_one_that_there_is() -> None:
    assert [row for row in row_tests() if row not in read_rows()] == []


@pytest.mark.parametrize(
    "line", ["| S1.1 | broker | A. |\n| S1.1 | broker | B. |", "| S1.1 | server | A. |", "| S1.1 |  | A. |"]
)
def test_a_page_that_cannot_be_meant(line: str) -> None:
    with pytest.raises(BadPage, match=r"S1\.1"):
        rows_in(line)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("test_s1_4_held", ["S1.4"]),
        ("test_s1_10_i13_counts", ["S1.10", "I13"]),
        ("test_i9_s3_keys", ["I9"]),
        ("test_s1_held", []),
        ("test_i18n", []),
        ("test_held_s1_4", []),
    ],
)
def test_rows_of_a_name(name: str, rows: list[str]) -> None:
    assert rows_of(name) == rows


def test_tests_are_found_without_importing_them(tmp_path: Path) -> None:
    source = "import nothing\ndef test_s1_1_a(): ...\nclass TestB:\n  async def test_s1_1_i2_b(self): ...\n"
    source += "  def help(self): ...\n"
    assert list(find_tests(source)) == ["test_s1_1_a", "TestB::test_s1_1_i2_b"]
    folder = tmp_path / "tests"
    (folder / "unit").mkdir(parents=True)
    (folder / "unit" / "test_x.py").write_text(source)
    assert row_tests(folder) == {
        "S1.1": ["tests/unit/test_x.py::test_s1_1_a", "tests/unit/test_x.py::TestB::test_s1_1_i2_b"],
        "I2": ["tests/unit/test_x.py::TestB::test_s1_1_i2_b"],
    }


def test_results_out_of_junit(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT)
    outcomes = read_outcomes([file])
    found = {
        test: outcome_of(f"tests/unit/test_a.py::{test}", outcomes)
        for test in ("test_s1_1_a", "TestB::test_s1_2_b", "test_c", "test_d", "test_e", "test_f")
    }
    assert [each.result for each in found.values()] == [FAILED, PASSED, PASSED, SKIPPED, NOT_RUN, PASSED]
    assert found["test_s1_1_a"].passed_with == {"0"}
    assert found["test_f"].passed_with == {"tcp", "websocket", "0"}


PATCHED = {("S1.1", "broker"), ("S1.2", "broker"), ("S2.1", "client")}
CLIENTS = "tests/acceptance/client/test_c.py::test_three"
PASS = Outcome(result=PASSED)
EVERYWHERE = Outcome(result=PASSED, passed_with={"tcp", "websocket"})


def key_of(test: str) -> tuple[str, str]:
    """How JUnit's files name it: class and test."""
    path, *classes, name = test.split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *classes]), name


def clients(outcome: Outcome) -> dict[tuple[str, str], Outcome]:
    """What became of the client's test."""
    return {key_of(CLIENTS): outcome}


def outcome(**tests: str) -> list[str]:
    """What is wrong when every half of a row has one test, with these results; the client's test passes."""
    known = {
        "S1.1": ["tests/a.py::test_one"],
        "S1.2": ["tests/a.py::test_two", CLIENTS],
        "S2.1": [CLIENTS],
    }
    outcomes = {("tests.a", name): Outcome(result=result) for name, result in tests.items()}
    return report(ROWS, known, outcomes | clients(EVERYWHERE), PATCHED).wrong


def test_everything_passed() -> None:
    assert outcome(test_one=PASSED, test_two=PASSED) == []


@pytest.mark.parametrize("result", [FAILED, SKIPPED, NOT_RUN])
def test_a_row_whose_only_test_did_not_pass(result: str) -> None:
    assert outcome(test_one=PASSED, test_two=result)[-1] == "S1.2: broker: no test passed"


def test_halves_of_rows_without_test_or_patch_are_wrong() -> None:
    outcomes = {("tests.a", "test_one"): PASS}
    answer = report(ROWS, {"S1.1": ["tests/a.py::test_one"]}, outcomes, {("S1.2", "broker")})
    assert answer.wrong == [
        "S1.1: broker: no patch",
        "S1.2: broker: no test",
        "S1.2: client: no test",
        "S2.1: client: no test",
        "S2.1: client: no patch",
    ]
    assert [line.split()[0] for line in answer.lines if not line.startswith(" ")] == list(ROWS)
    assert answer.lines[-1].split() == ["client", "NO", "PATCH"]


def test_a_test_of_the_one_side_shows_nothing_of_the_other() -> None:
    known = {"S1.1": [CLIENTS], "S1.2": [CLIENTS], "S2.1": ["tests/a.py::test_one"]}
    answer = report(ROWS, known, {("tests.a", "test_one"): PASS} | clients(EVERYWHERE), PATCHED)
    assert answer.wrong == ["S1.1: broker: no test", "S1.2: broker: no test", "S2.1: client: no test"]


def test_a_failing_test_of_the_client_is_wrong() -> None:
    answer = report({"S2.1": ROWS["S2.1"]}, {"S2.1": [CLIENTS]}, clients(Outcome(result=FAILED)), PATCHED)
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
    answer = report({"S2.1": ROWS["S2.1"]}, {"S2.1": [test]}, {key_of(test): outcome}, PATCHED)
    assert answer.wrong == [f"S2.1: client: not shown against a whole Vela {each}".rstrip() for each in lacks]


def test_the_pull_client_has_one_transport() -> None:
    rows = {"S3.1": Row(name="S3.1", side="both", statement="D.")}
    answer = report(
        rows,
        {"S3.1": [CLIENTS, "tests/a.py::test_one"]},
        clients(PASS) | {("tests.a", "test_one"): PASS},
        {("S3.1", "broker")},
    )
    assert answer.wrong == []


def test_the_clients_tests_are_known_by_their_folder() -> None:
    assert is_client_test(CLIENTS)
    assert is_client_test("tests/integration/client/deeper/test_x.py::TestY::test_z")
    assert not is_client_test("tests/unit/wire/client.py::test_x")
    assert not is_client_test("tests/acceptance/test_client.py::test_x")
    assert is_whole_client_test(CLIENTS)
    assert not is_whole_client_test("tests/integration/client/test_x.py::test_x")


def test_a_test_of_no_row_is_wrong() -> None:
    assert report({}, {"S9.9": ["tests/a.py::test_s9_9_x"]}, {}, set()).wrong == ["S9.9 has tests and no row"]
