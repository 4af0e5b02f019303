"""The stored results of a run, and the tables made from them."""

from __future__ import annotations

from pathlib import Path

from bench.figures import Figure, Goal
from bench.profiling import top
from bench.report import tables
from bench.results_file import keep, load

FACTS = {"date": "today", "load before": "0.1", "fsync": "5,000/s", "machine": "2 cores"}


def test_a_new_result_replaces_only_that_of_its_question(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    first = Figure(name="rate", unit="msg/s", runs=(1.0, 2.0, 3.0))
    second = Figure(name="rate", unit="msg/s", runs=(4.0, 5.0, 6.0))
    keep("drain", [first], FACTS, is_quick=True, path=path)
    keep("reset", [first], FACTS, is_quick=False, path=path)
    keep("drain", [second], FACTS, is_quick=False, path=path)
    answers = load(path)
    assert answers["drain"]["figures"][0]["median"] == 5.0
    assert answers["drain"]["quick"] is False
    assert answers["reset"]["figures"][0]["median"] == 2.0


def test_a_missing_file_has_no_results(tmp_path: Path) -> None:
    assert load(tmp_path / "latest.json") == {}


def test_a_missed_goal_stands_out_and_quick_figures_say_so() -> None:
    missed = Figure(name="  of the ceiling", unit="%", runs=(50.0, 55.5, 70.0), goal=Goal(at_least=60.0))
    answers = {"drain": {"quick": True, "facts": FACTS, "figures": [missed.as_json()]}}
    text = tables(answers)
    assert "| of the ceiling | 55.50 % | 50.00 … 70.00 | ≥ 60: **missed** |  |" in text
    assert "QUICK" in text
    assert text.startswith("- machine: 2 cores\n")


def test_waiting_for_events_is_not_work() -> None:
    stacks = (
        "main;run;select (selectors.py:468) 900\nmain;a (x.py:1) 30\nmain;a (x.py:2) 45\nmain;b (x.py:9) 25\n"
    )
    assert top(stacks) == [" 75.0 %  a (x.py)", " 25.0 %  b (x.py)"]
