"""Prepare the application's functions for calls on threads, while the event loop waits for their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["for_a_thread"]

P = ParamSpec("P")
R = TypeVar("R")


def for_a_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that does the same, but raises RuntimeError for two exceptions that asyncio cannot pass on.

    SystemExit would end the event loop. StopIteration, for example of `next` without a default, would never arrive, so
    the caller would wait for ever.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (StopIteration, SystemExit) as error:
            raise RuntimeError(f"{function!r} raised {error!r}") from error

    return call
