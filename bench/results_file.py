"""bench/results/latest.json: the last answer to each question, and the machine it was measured on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure

__all__ = ["RESULTS", "keep", "load"]

RESULTS = Path(__file__).parent / "results" / "latest.json"


def load(path: Path = RESULTS) -> dict[str, Any]:
    """Read the answers by question: `quick`, `facts`, `figures`. Empty if nothing has been measured yet."""
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
    """Replace the question's last answer. The answers to other questions stay."""
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
