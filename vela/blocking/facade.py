"""How a class of `vela.aio` becomes one for threads: each coroutine method, run on the loop's thread and waited for."""

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
    """Something of `vela.aio`, and the loop that it lives on."""

    def __init__(self, aio: A, thread: LoopThread, *, client: object = None) -> None:
        """`client`: what must not be collected while this is in use."""
        self.aio = aio
        """The same for asyncio. Touch it on the client's event loop only."""
        self._thread = thread
        self._client = client

    def wait_for(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Runs a coroutine on the client's event loop to its end."""
        return self._thread.run(make)


def waits(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Facade[A], P], R]:
    """The method of the same name and arguments, that returns when the coroutine is done."""
    name = method.__name__

    @functools.wraps(method)
    def call(facade: Facade[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, Coroutine[Any, Any, R]] = getattr(facade.aio, name)
        return facade.wait_for(lambda: bound(*args, **kwargs))

    return call
