"""Compare the bodies of two messages line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, Literal

from console.messages.decoders.hexadecimal import hex_dump
from console.messages.decoders.report import Decoded

__all__ = ["Comparison", "Line", "compare_bodies", "compare_lines"]

BodyForm = Literal["JSON", "text", "hex"]

# The time of a comparison grows with the square of the number of lines.
_MOST_LINES: Final = 1000
_CONTEXT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the comparison. `left` or `right` is None if that side shows no line."""

    kind: Literal["equal", "changed", "left", "right", "folded"]
    left: str | None = None
    right: str | None = None
    folded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The compared lines. Equal lines far from a difference are folded."""

    form: BodyForm
    lines: Sequence[Line]
    is_equal: bool
    is_cut: bool  # Whether some lines were left out


def compare_bodies(left: Decoded, right: Decoded) -> Comparison:
    """Compare two bodies as JSON if possible, else as text, else as bytes."""
    values = (_pretty(left), _pretty(right))
    if values[0] is not None and values[1] is not None:
        return compare_lines("JSON", values[0], values[1])
    if _is_text(left) and _is_text(right):
        return compare_lines("text", left.text.split("\n"), right.text.split("\n"))
    return compare_lines("hex", hex_dump(left.data).split("\n"), hex_dump(right.data).split("\n"))


def compare_lines(form: BodyForm, left: Sequence[str], right: Sequence[str]) -> Comparison:
    """Compare two texts line by line."""
    if left == right:
        return Comparison(form=form, lines=(), is_equal=True, is_cut=False)
    begin = _equal_at_start(left, right)
    end = _equal_at_start(left[begin:][::-1], right[begin:][::-1])
    inner_left, inner_right = left[begin : len(left) - end], right[begin : len(right) - end]
    is_cut = max(len(inner_left), len(inner_right)) > _MOST_LINES
    lines = [
        *(Line(kind="equal", left=line, right=line) for line in left[:begin]),
        *_compared(inner_left[:_MOST_LINES], inner_right[:_MOST_LINES]),
    ]
    if not is_cut:
        lines += (Line(kind="equal", left=line, right=line) for line in left[len(left) - end :])
    return Comparison(form=form, lines=tuple(_folded(lines)), is_equal=False, is_cut=is_cut)


def _pretty(decoded: Decoded) -> list[str] | None:
    """Return the value as lines of JSON, or None.

    Remove commas at line ends. Otherwise, a new last member would also change the previous line.
    """
    if not decoded.has_value:
        return None
    try:
        text = json.dumps(decoded.value, indent=2, ensure_ascii=False, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # A MessagePack map can have keys that Python cannot sort
        return None
    return [line.removesuffix(",") for line in text.split("\n")]


def _is_text(decoded: Decoded) -> bool:
    return bool(decoded.text) or not decoded.data


def _equal_at_start(left: Sequence[str], right: Sequence[str]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _compared(left: Sequence[str], right: Sequence[str]) -> Iterator[Line]:
    for tag, left_at, left_end, right_at, right_end in SequenceMatcher(None, left, right).get_opcodes():
        pairs = zip_longest(left[left_at:left_end], right[right_at:right_end])
        for one, other in pairs:
            if tag == "equal":
                yield Line(kind="equal", left=one, right=other)
            elif other is None:
                yield Line(kind="left", left=one)
            elif one is None:
                yield Line(kind="right", right=other)
            else:
                yield Line(kind="changed", left=one, right=other)


def _folded(lines: Sequence[Line]) -> Iterator[Line]:
    differing = [at for at, line in enumerate(lines) if line.kind != "equal"]
    shown = {
        near for at in differing for near in range(max(at - _CONTEXT, 0), min(at + _CONTEXT + 1, len(lines)))
    }
    folded = 0
    for at, line in enumerate(lines):
        if at not in shown:
            folded += 1
            continue
        if folded:
            yield Line(kind="folded", folded=folded)
            folded = 0
        yield line
    if folded:
        yield Line(kind="folded", folded=folded)
