"""Inject faults into the broker's storage calls. The faults are in this process, not in PostgreSQL."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from enum import Enum
from typing import Any
from unittest.mock import patch

from broker.storage import pool as connections
from broker.storage import prepared_connection
from broker.storage.acts import acts
from broker.storage.cursors import cursors
from broker.storage.log import compaction, deduplication, delayed, entries, outbox
from broker.storage.topics import topics

__all__ = ["Fault", "Moment", "StorageFaults"]

_MODULES = (acts, compaction, cursors, deduplication, delayed, entries, outbox, topics)


class Fault(RuntimeError):
    """An injected fault."""


class Moment(Enum):
    """When a call fails."""

    BEFORE = "before"  # nothing has been sent
    AFTER = "after"  # PostgreSQL has executed the call, but this process does not know that


class StorageFaults:
    """Counts the calls made inside `installed()`. A test chooses which of them fail."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self._plan: dict[str, tuple[Moment, range, type[Exception]]] = {}

    def fail(
        self,
        call: str,
        moment: Moment = Moment.BEFORE,
        *,
        first: int = 1,
        times: int = 1,
        error: type[Exception] = Fault,
    ) -> None:
        """Let `times` calls of `call`, such as "entries.append", fail, beginning with the `first` one from now."""
        first += self.calls[call]
        self._plan[call] = moment, range(first, first + times), error

    def heal(self) -> None:
        """Make no more calls fail."""
        self._plan.clear()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Route the broker's storage calls through this object while the block runs."""
        with ExitStack() as stack:
            for module in _MODULES:
                short = module.__name__.rpartition(".")[2]
                for name in module.__all__:
                    function = getattr(module, name)
                    if inspect.iscoroutinefunction(function):
                        wrapped = self._wrapped(f"{short}.{name}", function)
                        stack.enter_context(patch.object(module, name, wrapped))
            for user in (connections, prepared_connection):
                name = f"{user.__name__.rpartition('.')[2]}.connect"
                stack.enter_context(patch.object(user, "connect", self._wrapped(name, user.connect)))
            use = connections.ConnectionPool.use

            @functools.wraps(use)
            def borrow(pool: connections.ConnectionPool) -> AbstractAsyncContextManager[Any]:
                self._begin(f"pool.{pool._name}", Moment.BEFORE)
                return use(pool)

            stack.enter_context(patch.object(connections.ConnectionPool, "use", borrow))
            yield

    def _wrapped(
        self, name: str, function: Callable[..., Awaitable[object]]
    ) -> Callable[..., Awaitable[object]]:
        @functools.wraps(function)
        async def call(*args: object, **named: object) -> object:
            number = self._begin(name, Moment.BEFORE)
            result = await function(*args, **named)
            self._break(name, number, Moment.AFTER)
            return result

        return call

    def _begin(self, name: str, moment: Moment) -> int:
        self.calls[name] += 1
        self._break(name, self.calls[name], moment)
        return self.calls[name]

    def _break(self, name: str, number: int, moment: Moment) -> None:
        planned = self._plan.get(name)
        if planned is not None and planned[0] is moment and number in planned[1]:
            self.hits[name] += 1
            raise planned[2](f"injected {moment.value} {name}")
