"""Calls of the application's functions on threads, while the event loop waits for their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["called"]

P = ParamSpec("P")
R = TypeVar("R")


def called(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function and return its result. Run this on a thread, in place of the function.

    Raises RuntimeError instead of two exceptions that asyncio cannot pass on: SystemExit would end the event loop, and
    StopIteration, for example of `next` without a default, would never arrive, so the caller would wait for ever.
    """
    try:
        return function(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        raise RuntimeError(f"{function!r} raised {error!r}") from error
