"""The base of the blocking classes. Each wraps a class of `vela.aio` and runs coroutines on an event loop's thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from vela.blocking.loop_thread import LoopThread

__all__ = ["Facade", "waits"]

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")


class Facade(Generic[A]):
    """An object of `vela.aio`, and the thread that runs its event loop."""

    def __init__(self, aio: A, thread: LoopThread, *, client: object = None) -> None:
        """`client` is kept so that it is not garbage-collected while this object is in use."""
        self.aio = aio
        """The wrapped object. Use it on the client's event loop only."""
        self._thread = thread
        self._client = client

    def wait_for(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the client's event loop and return its result."""
        return self._thread.run(make)


def waits(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Facade[A], P], R]:
    """Return a method with the name and arguments of `method`, which waits until the coroutine of `method` is done."""
    name = method.__name__

    @functools.wraps(method)
    def call(facade: Facade[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, Coroutine[Any, Any, R]] = getattr(facade.aio, name)
        return facade.wait_for(lambda: bound(*args, **kwargs))

    return call
