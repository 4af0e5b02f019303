"""`python -m bench`: start a Vela for each question, measure, print a table, store it in bench/results/latest.json."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from bench.figures import Figure
from bench.machine import describe
from bench.profiling import profiled, top
from bench.questions import QUESTIONS, SETTINGS
from bench.report import number
from bench.results_file import RESULTS, keep
from bench.setting import Setting
from bench.usage import Processes
from tests.support.vela import started_vela


def main() -> int:
    """Run the questions. Return 0 if every goal is met, else 1. Figures of --quick decide nothing."""
    options = _options()
    gc.freeze()
    answers: dict[str, list[Figure]] = {}
    facts: dict[str, str] = {}
    for name in options.only or QUESTIONS:
        answers[name], facts = _ask(name, options)
        keep(name, answers[name], facts, is_quick=options.quick)
    _print(facts, answers, is_quick=options.quick)
    unmet = [figure for figures in answers.values() for figure in figures if figure.is_met is False]
    return 1 if unmet and not options.quick else 0


def _ask(name: str, options: argparse.Namespace) -> tuple[list[Figure], dict[str, str]]:
    """Ask one question of a new Vela, so that it inherits no tables, caches or dead rows of another question.

    Return the figures, and the facts about the machine.
    """
    with started_vela(SETTINGS.get(name)) as vela:
        pids = vela.pids()
        setting = Setting(
            vela=vela,
            processes=Processes(broker_pid=pids["broker"], postgres_pid=pids["postgresql"]),
            is_quick=options.quick,
            repeats=max(3, options.repeats),
            part=options.part,
        )
        facts = describe(vela.database_url, vela.data_dir)
        setting.say(name)
        stacks = RESULTS.with_name(f"{name}.stacks")
        with profiled(pids["broker"], stacks) if options.profile else nullcontext():
            figures = QUESTIONS[name](setting)
        if options.profile:
            for line in top(stacks.read_text(encoding="utf-8")):
                setting.say(line)
    return figures, facts


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="See bench/METHODOLOGY.md.")
    parser.add_argument(
        "--only", action="append", choices=sorted(QUESTIONS), help="ask this question (repeatable)"
    )
    parser.add_argument("--part", default="", help="ask only about loads with this in their names (fairness)")
    parser.add_argument(
        "--quick", action="store_true", help="short runs, which only show that the benchmark works"
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="sample the broker with py-spy; do not quote the figures of such a run",
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs for each figure, at least 3")
    return parser.parse_args()


def _print(facts: Mapping[str, str], answers: Mapping[str, Sequence[Figure]], *, is_quick: bool) -> None:
    if is_quick:
        print("QUICK RUN: it shows that the benchmark works; do not quote these figures.\n")
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    for name, figures in answers.items():
        print(f"\n{name}")
        for figure in figures:
            print("  " + row(figure))


def row(figure: Figure) -> str:
    """Return one line of the table: name, median, lowest … highest, goal, note."""
    verdict = {None: "", True: "met", False: "MISSED"}[figure.is_met]
    goal = f"goal {figure.goal}: {verdict}" if figure.goal is not None else ""
    spread = f"{number(min(figure.runs))} … {number(max(figure.runs))}"
    head = f"{figure.name:<52}{number(figure.median):>12} {figure.unit:<6} ({spread})"
    return "  ".join(part for part in (head, goal, figure.note) if part)


if __name__ == "__main__":
    sys.exit(main())
