"""Count work in executed lines of Python, so that a test can tell linear from quadratic work without a clock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

__all__ = ["Steps", "counted_steps"]


@dataclass
class Steps:
    """How many lines were executed so far. Each iteration of a comprehension counts."""

    count: int = 0


@contextmanager
def counted_steps(*modules: ModuleType) -> Iterator[Steps]:
    """Count the lines of these modules that this thread executes."""
    files = {module.__file__ for module in modules}
    steps = Steps()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            steps.count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)
