"""Wait on one thread for the outcome of a call on the event loop's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

__all__ = ["Waiter"]

T = TypeVar("T")


class Waiter(Generic[T]):
    """The outcome of one call, set on one thread and taken on another, exactly once.

    KeyboardInterrupt, or any exception thrown into the waiting thread, may interrupt the wait. A value given before or
    after the interrupt is not lost: `unclaimed` gets it.
    """

    __slots__ = ("_error", "_guard", "_is_abandoned", "_is_given", "_ready", "_unclaimed", "_value")

    def __init__(self, unclaimed: Callable[[T], None] | None = None) -> None:
        self._ready = threading.Lock()  # locked until there is an outcome; twice as fast as an Event
        self._ready.acquire()
        self._guard = threading.Lock()
        self._unclaimed = unclaimed
        self._is_given = False
        self._is_abandoned = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def give(self, value: T) -> None:
        """Set the value that the call returned."""
        with self._guard:
            is_abandoned = self._is_abandoned
            self._is_given, self._value = True, value
        if not is_abandoned:
            self._ready.release()
        elif self._unclaimed is not None:
            self._unclaimed(value)

    def fail(self, error: BaseException) -> None:
        """Set the error that the call raised."""
        self._error = error
        self._ready.release()

    def wait(self) -> T:
        """Wait for the outcome. Return the value or raise the error.

        Python delivers no signal between the end of the wait and the return, so an interrupt is always raised inside
        the `try`.
        """
        try:
            self._ready.acquire()
            if self._error is None:
                return cast(T, self._value)
        except BaseException:
            self.abandon()
            raise
        raise self._error

    def abandon(self) -> None:
        """Give up the wait. A value that was given before, or is given later, goes to `unclaimed`. Safe to repeat."""
        with self._guard:
            if self._is_abandoned:
                return
            self._is_abandoned = True
            is_given = self._is_given
        if is_given and self._unclaimed is not None:
            self._unclaimed(cast(T, self._value))
