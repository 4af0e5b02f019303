"""Change JSON values member by member, and their texts byte by byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tests.fuzz.byte_mutations import INTEGERS, mutated_bytes

__all__ = ["mutated_json"]

_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, "", " ", "x", "x" * 400, "\u0000", "\u202e", "\ud800", "\U0001f600", "é", "AAAA", "-1",
    "earliest", 0, -1, 0.5, 1e308, float("nan"), float("inf"), [], {}, [[]], {"": None},
    *INTEGERS, *(-each for each in INTEGERS), 10**40,
)  # fmt: skip


def mutated_json(random: Random, example: Any, others: Sequence[bytes]) -> bytes:
    """Return the text of `example` with some changes. Three of ten texts are changed byte by byte too."""
    value = example
    for _ in range(1 + int(random.random() ** 2 * 3)):
        value = _changed(random, value)
    if random.random() < 0.02:
        value = [value] * (1 + random.getrandbits(11))
    text = json.dumps(value).encode()
    return mutated_bytes(random, text, others) if random.random() < 0.3 else text


def _changed(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        changed = dict(value)
        name = list(changed)[int(random.random() * len(changed))]
        if random.random() < 0.1:
            del changed[name]
        elif random.random() < 0.05:
            changed[f"{name}x"] = _new(random)
        else:
            changed[name] = _changed(random, changed[name])
        return changed
    if isinstance(value, list) and value and random.random() < 0.7:
        items = list(value)
        at = int(random.random() * len(items))
        items[at] = _changed(random, items[at])
        return items
    return _new(random)


def _new(random: Random) -> Any:
    return _VALUES[int(random.random() * len(_VALUES))]
