"""Telling an application that its Failover consumer is the one that receives now, or is not."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vela.aio.consumer_options import ConsumerEvents

__all__ = ["EventCaller"]

log = logging.getLogger(__name__)


class EventCaller:
    """Calls them one after the other, on a thread made for the first; one that raises is logged."""

    def __init__(self, events: ConsumerEvents | None, name: str) -> None:
        self._events = events
        self._name = name
        self._executor: ThreadPoolExecutor | None = None
        self._is_closed = False

    def tell(self, consumer: Any, partition: int, active: bool) -> None:
        """Have the application told; never waits."""
        if self._events is None or self._is_closed:
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"events-{self._name}")
        call = self._events.became_active if active else self._events.became_inactive
        self._executor.submit(self._call, call, consumer, partition)

    def _call(self, call: Any, consumer: Any, partition: int) -> None:
        try:
            call(consumer, partition)
        except Exception:
            log.exception("the consumer event listener failed")

    def close(self) -> None:
        """Nothing more is told."""
        self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False)
