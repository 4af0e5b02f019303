"""Run the slow requests of a binary connection as tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from broker.core.errors import BrokerError
from broker.doors.binary.repeated_refusals import RepeatedRefusals
from broker.doors.binary.wire import events
from broker.doors.server_errors import server_error

if TYPE_CHECKING:
    from collections import Counter

    from broker.doors.binary.peer import Peer
    from broker.listening.loop_time import TimeShare

__all__ = ["RequestRunner"]

logger = logging.getLogger(__name__)

# Charge the connection this much event-loop time before each request runs. Otherwise, a connection could start a
# thousand tasks before the other connections continue.
REQUEST_NS: Final = 50_000


class RequestRunner:
    """Runs the requests of one peer on one event loop."""

    def __init__(self, peer: Peer, refused_requests: Counter[str], share: TimeShare) -> None:
        """`refused_requests` counts the refusals of the whole broker."""
        self._peer = peer
        self._share = share
        self._refused_requests = refused_requests
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals = RepeatedRefusals(peer.__str__, self._loop.time)

    @property
    def peer_text(self) -> str:
        """A description of the peer for the log."""
        return str(self._peer)

    async def room(self) -> None:
        """Wait while too many answers to the peer are unsent."""
        await self._peer.room()

    def run(
        self, event: events.Event, work: Coroutine[Any, Any, None], refuse: Callable[[BrokerError], None]
    ) -> None:
        """Run `work` as a task. If the task fails, call `refuse` with an error."""
        self._peer.gate.request_begun()
        self._share.charge(REQUEST_NS)
        task = self._loop.create_task(self._run(event, work, refuse))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(
        self, event: events.Event, work: Coroutine[Any, Any, None], refuse: Callable[[BrokerError], None]
    ) -> None:
        try:
            await self._share.charging(work, paid_ns=REQUEST_NS)
        except BrokerError as error:
            self.count_refusal(event, str(error))
            refuse(error)
        except Exception:
            logger.exception("%s: a request failed", self._peer.address, extra={"client": self._peer.address})
            refuse(BrokerError("internal error; see the broker's log"))
        finally:
            self._peer.written()
            self._peer.gate.request_done()

    def refusal(self, request_id: int) -> Callable[[BrokerError], None]:
        """Return a function that answers this request with ERROR."""
        return lambda error: self._peer.engine.send_error(request_id, server_error(error), str(error))

    def count_refusal(self, event: events.Event, why: str) -> None:
        """Count a refused request. Log a client that keeps repeating the request."""
        request = event.name if isinstance(event, events.Unsupported) else type(event).__name__
        self._refused_requests[request] += 1
        self._refusals.add(request, getattr(event, "topic", ""), why)

    def ended(self) -> None:
        """Log the totals of repeated refusals. Call this when the connection is lost.

        This method does not cancel the running requests.
        """
        self._refusals.ended()
