"""The requests of one connection that wait for their answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from vela.errors import Timeout, VelaError, from_server_error
from vela.wire.binary import replies

__all__ = ["Request", "Requests", "failed"]

logger = logging.getLogger(__name__)

Answered = asyncio.Future[replies.Answer]


@dataclass(slots=True, eq=False)
class Request:
    """A request that waits for its answer."""

    request_id: int
    answer: Answered
    deadline: asyncio.TimerHandle | None
    on_queued: Callable[[], None] | None


class Requests:
    """The waiting requests, by id. Answers to other ids are ignored."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._name = name  # the name of the connection, for errors
        self._loop = loop
        self._pending: dict[int, Request] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    def next_id(self) -> int:
        """Return an id that no other request on this connection has."""
        self._last_id += 1
        return self._last_id

    def begin(
        self, request_id: int, timeout_s: float | None, on_queued: Callable[[], None] | None = None
    ) -> Request:
        """Add a request that waits at most this long for its answer; None = no limit."""
        request = Request(request_id, self._loop.create_future(), None, on_queued)
        if timeout_s is not None:
            request.deadline = self._loop.call_later(timeout_s, self._time_out, request, timeout_s)
        self._pending[request_id] = request
        return request

    def end(self, request: Request) -> None:
        """Remove a request. A later answer is ignored."""
        if request.deadline is not None:
            request.deadline.cancel()
        self._pending.pop(request.request_id, None)

    def _time_out(self, request: Request, timeout_s: float) -> None:
        self.end(request)
        _fail(request.answer, Timeout(f"{self._name} did not answer within {timeout_s:g} s"))

    def answered(self, reply: replies.Answer) -> None:
        """Pass an answer to its request. A queued producer's request then waits without a limit for a second answer."""
        request = self._pending.get(reply.request_id)
        if request is None:  # cancelled or timed out
            logger.debug("%s: late answer %s", self._name, reply)
        elif isinstance(reply, replies.Refusal):
            _fail(request.answer, from_server_error(reply.code, reply.message))
        elif isinstance(reply, replies.ProducerSuccess) and not reply.ready:
            if request.deadline is not None:
                request.deadline.cancel()
            if request.on_queued is not None:
                request.on_queued()
        elif not request.answer.done():
            request.answer.set_result(reply)

    def fail_all(self, error: VelaError) -> None:
        """Fail all requests, because the connection is lost."""
        pending, self._pending = self._pending, {}
        for request in pending.values():
            _fail(request.answer, error)


def failed(loop: asyncio.AbstractEventLoop, error: VelaError) -> Answered:
    """Return a future that has failed with `error`, for a request that cannot be sent."""
    answer: Answered = loop.create_future()
    _fail(answer, error)
    return answer


def _fail(answer: Answered, error: VelaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # mark it as seen: asyncio must not log it if nobody awaits it
