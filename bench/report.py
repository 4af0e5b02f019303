"""`python -m bench.report`: print the stored results as the tables of docs/benchmarks.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from bench.questions import QUESTIONS
from bench.results_file import load

__all__ = ["main", "number", "tables"]

_VERDICTS = {None: "", True: "met", False: "**missed**"}
_COMMON = ("date", "load before", "fsync")  # facts that differ from question to question; the others do not


def tables(answers: Mapping[str, Any]) -> str:
    """Return Markdown: the machine once, then a table for each question, in order."""
    lines: list[str] = []
    for name in QUESTIONS:
        if name not in answers:
            continue
        answer = answers[name]
        if not lines:
            lines += [f"- {key}: {value}" for key, value in answer["facts"].items() if key not in _COMMON]
        facts = "; ".join(f"{key} {answer['facts'][key]}" for key in _COMMON)
        lines += ["", f"### {name}", "", f"{facts}{'; QUICK' if answer['quick'] else ''}", ""]
        lines += ["| | median | lowest … highest | goal | |", "|---|---:|---:|---|---|"]
        lines += [_row(figure) for figure in answer["figures"]]
    return "\n".join(lines) + "\n"


def _row(figure: Mapping[str, Any]) -> str:
    runs = figure["runs"]
    goal = f"{figure['goal']}: {_VERDICTS[figure['met']]}" if figure["goal"] else ""
    cells = (
        figure["name"].strip(),
        f"{number(figure['median'])} {figure['unit']}",
        f"{number(min(runs))} … {number(max(runs))}",
        goal,
        figure["note"],
    )
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    """Return a number as it is printed: with two decimals below 100, without decimals from 100 up."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def main() -> int:
    """Print the tables. Return 1 if there are none."""
    answers = load()
    if not answers:
        sys.stderr.write("nothing was measured yet: make bench\n")
        return 1
    sys.stdout.write(tables(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
