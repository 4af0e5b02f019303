"""Make the table of all servers: a row for each figure and server, and how Vela compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.works import WORKS
from bench.report import number

__all__ = ["answer_key", "table"]

_VELA = "vela"
_PERCENTILES = {"p50_ms": ", p50", "p99_ms": ", p99", "p999_ms": ", p99.9"}


def answer_key(server: str, work: str) -> str:
    """Return the name under which the results file keeps a server's answer."""
    return f"{server}/{work}"


def table(answers: Mapping[str, Any], servers: Sequence[str]) -> str:
    """Return Markdown: how each server ran, then the figures. Answers of `--quick` are marked."""
    lines = [_server(name, answers) for name in servers if _answers_of(name, answers)]
    lines += [
        "",
        "| | | median | lowest … highest | Vela is | CPU a message | |",
        "|---|---|---:|---|---:|---|---|",
    ]
    for key, work in WORKS.items():
        for place, figure in enumerate(work.figures):
            for name in servers:
                answer = answers.get(answer_key(name, key))
                if answer is not None:
                    found = answer["figures"][place]
                    ours = answers.get(answer_key(_VELA, key))
                    median = ours and ours["figures"][place]["median"]
                    title = f"{work.title}{_PERCENTILES.get(figure, '')}"
                    times = _times(name, work.unit, median, found["median"])
                    lines.append(_row(title, name, found, times, is_quick=answer["quick"]))
    return "\n".join(lines) + "\n"


def _answers_of(name: str, answers: Mapping[str, Any]) -> list[Any]:
    return [answer for key, answer in answers.items() if key.startswith(f"{name}/")]


def _server(name: str, answers: Mapping[str, Any]) -> str:
    facts = _answers_of(name, answers)[-1]["facts"]
    return f"- {name}: {'; '.join(f'{key} {value}' for key, value in facts.items())}"


def _times(name: str, unit: str, ours: float | None, theirs: float) -> str:
    """Return Vela's speed as a multiple of this server's, in words; empty for Vela itself."""
    if ours is None or name == _VELA:
        return ""
    return f"{theirs / ours if unit == 'ms' else ours / theirs:.2f} ×"


def _row(title: str, server: str, figure: Mapping[str, Any], times: str, *, is_quick: bool) -> str:
    runs = figure["runs"]
    cells = (
        title,
        server,
        f"{number(figure['median'])} {figure['unit']}",
        f"{number(min(runs))} … {number(max(runs))}",
        times,
        figure["note"],
        "QUICK" if is_quick else "",
    )
    return f"| {' | '.join(cells)} |"
