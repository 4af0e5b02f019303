"""Runs handlers: one WebSocket each, a message acked when its function has returned."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, cast

from django.db import close_old_connections, transaction

from broker.handlers.message import Message
from broker.handlers.registry import Handler
from broker.handlers.socket import ConsumerSocket, SocketLost
from broker.handlers.threads import CallThreads

__all__ = ["run_handlers"]

log = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 10.0


async def run_handlers(
    handlers: Sequence[Handler], url: str, *, stopping: asyncio.Event, stop_timeout_s: float
) -> None:
    """Serve until `stopping`; then what is being handled has `stop_timeout_s` to end, and is acked.

    What has not ended by then is left alone, in daemon threads.
    """
    threads = CallThreads(sum(each.concurrency for each in handlers if not each.is_async), "handler")
    runners = [_Runner(each, url, threads, stopping) for each in handlers]
    tasks = [asyncio.create_task(runner.run(), name=runner.handler.name) for runner in runners]
    await stopping.wait()
    await asyncio.gather(*(runner.finish(stop_timeout_s) for runner in runners))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    threads.end()


class _Runner:
    """One handler's connection and the calls under way."""

    def __init__(self, handler: Handler, url: str, threads: CallThreads, stopping: asyncio.Event) -> None:
        self.handler = handler
        self._url = url
        self._threads = threads
        self._stopping = stopping
        self._socket: ConsumerSocket | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Connect, and again whenever the connection is lost."""
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            try:
                self._socket = await ConsumerSocket.connect(self._url, self.handler.path(), self._pushed)
            except (OSError, SocketLost) as error:
                log.warning("%s: no connection to %s: %s", self.handler.name, self._url, error)
                # Workers that lost one broker together must not come back together.
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                continue
            wait_s = FIRST_WAIT_S
            log.info("%s: consuming %s", self.handler.name, self.handler.topic)
            await asyncio.wait((self._socket.lost,))
            log.info("%s: %s", self.handler.name, self._socket.refusal)

    async def finish(self, timeout_s: float) -> None:
        """Let the calls under way end, then leave; what has not ended by then is handled again by somebody else."""
        if self._calls:
            _, unfinished = await asyncio.wait(self._calls, timeout=timeout_s)
            if unfinished:
                log.warning("%s: %s messages were not handled in time", self.handler.name, len(unfinished))
        if self._socket is not None:
            await self._socket.close()

    def _pushed(self, frame: bytes) -> None:
        if self._stopping.is_set():
            return  # not acked: it is delivered to the next worker
        call = asyncio.create_task(self._handle(frame))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _handle(self, frame: bytes) -> None:
        handler = self.handler
        push = json.loads(frame)
        if "messageId" not in push:
            return
        answer = {"messageId": push["messageId"]}
        try:
            message = Message.from_push(handler.topic.full, push)
            if handler.is_async:
                await cast(Awaitable[object], handler.function(message))
            else:
                await self._threads.run(partial(_call, handler, message))
        except Exception:
            log.exception("%s: message %s comes again", handler.name, push["messageId"])
            answer["type"] = "negativeAcknowledge"
        # The socket of now, not of then: an ack through a later connection counts just the same.
        if self._socket is not None:
            self._socket.write(json.dumps(answer).encode())


def _call(handler: Handler, message: Message) -> None:
    close_old_connections()
    try:
        if handler.atomic:
            with transaction.atomic():
                handler.function(message)
        else:
            handler.function(message)
    finally:
        close_old_connections()
