"""Whether a Failover consumer is the active one, and calls of the application's listener when that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vela.aio.daemon_thread import DaemonThread

if TYPE_CHECKING:
    from vela.aio.consumers.options import ConsumerEvents

__all__ = ["ActiveRole"]


class ActiveRole:
    """Calls the application's listener after each change, one at a time, on a thread. Its errors are logged."""

    def __init__(self, events: ConsumerEvents | None, name: str) -> None:
        self.is_active: bool | None = None
        """Whether the broker last called this the active consumer; None = it has not said yet."""
        self._events = events
        self._thread = DaemonThread(f"events-{name}")
        self._is_closed = False

    def change(self, consumer: Any, partition: int, active: bool) -> None:
        """Record whether the consumer is active, and queue a call of the listener if that has changed. Never waits."""
        if self.is_active == active:
            return
        self.is_active = active
        if self._events is None or self._is_closed:
            return
        call = self._events.became_active if active else self._events.became_inactive
        self._thread.submit(lambda: call(consumer, partition))

    def close(self) -> None:
        """Stop queueing calls."""
        self._is_closed = True
        self._thread.stop(0)
