"""bench/results/latest.json: the last answer to each question, with what it was taken on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure

__all__ = ["RESULTS", "keep", "load"]

RESULTS = Path(__file__).parent / "results" / "latest.json"


def load(path: Path = RESULTS) -> dict[str, Any]:
    """By question: `quick`, `facts`, `figures`. Empty when nothing was measured yet."""
    if not path.exists():
        return {}
    answers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return answers


def keep(
    name: str,
    figures: Sequence[Figure],
    facts: Mapping[str, str],
    *,
    is_quick: bool,
    path: Path = RESULTS,
) -> None:
    """Put one answer in the place of the question's last one; the other questions' stay as they are."""
    answers = load(path)
    answers[name] = {
        "quick": is_quick,
        "facts": dict(facts),
        "figures": [figure.as_json() for figure in figures],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(path)
