"""Tell an application whether its Failover consumer is the active one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vela.aio.daemon_thread import DaemonThread

if TYPE_CHECKING:
    from vela.aio.consumers.options import ConsumerEvents

__all__ = ["EventCaller"]


class EventCaller:
    """Calls the application's event listener, one event at a time, on a thread. An error is logged."""

    def __init__(self, events: ConsumerEvents | None, name: str) -> None:
        self._events = events
        self._thread = DaemonThread(f"events-{name}")
        self._is_closed = False

    def tell(self, consumer: Any, partition: int, active: bool) -> None:
        """Queue a call of the listener. Never waits."""
        if self._events is None or self._is_closed:
            return
        call = self._events.became_active if active else self._events.became_inactive
        self._thread.submit(lambda: call(consumer, partition))

    def close(self) -> None:
        """Stop queueing calls."""
        self._is_closed = True
        self._thread.stop(0)
