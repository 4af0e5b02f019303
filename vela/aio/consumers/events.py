"""Telling an application that its Failover consumer is the one that receives now, or is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vela.aio.daemon_thread import DaemonThread

if TYPE_CHECKING:
    from vela.aio.consumers.options import ConsumerEvents

__all__ = ["EventCaller"]


class EventCaller:
    """Calls them one after the other, on a thread made for the first; one that raises is logged."""

    def __init__(self, events: ConsumerEvents | None, name: str) -> None:
        self._events = events
        self._thread = DaemonThread(f"events-{name}")
        self._is_closed = False

    def tell(self, consumer: Any, partition: int, active: bool) -> None:
        """Have the application told; never waits."""
        if self._events is None or self._is_closed:
            return
        call = self._events.became_active if active else self._events.became_inactive
        self._thread.submit(lambda: call(consumer, partition))

    def close(self) -> None:
        """Nothing more is told."""
        self._is_closed = True
        self._thread.stop(0)
