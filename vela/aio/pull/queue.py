"""Pull one queue of a pull consumer, one request after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from vela.aio.pull.http import PullHttp
from vela.aio.pull.settings import PullSettings
from vela.core.consuming.pull_loop import FAILED_MS, PullLoop, PullStep
from vela.errors import InvalidConfiguration, VelaError
from vela.pull_message import PulledMessage
from vela.wire.pull.reading import ReadAnswer

__all__ = ["QueuePuller"]

logger = logging.getLogger(__name__)


class QueuePuller:
    """Pulls one queue from an offset until it is cancelled."""

    def __init__(
        self,
        http: PullHttp,
        settings: PullSettings,
        *,
        topic: str,
        queue: int,
        offset: int,
        saved: int | None,
        deliver: Callable[[Iterable[PulledMessage]], None],
        moved: Callable[[], Awaitable[None]],
    ) -> None:
        """`saved`: the stored offset; None = not stored.

        `moved` is called when the broker has moved the offset, and must not raise: pulling does not depend on it.
        """
        self.queue = queue
        self.loop = PullLoop(offset, limits=settings.limits, pull_interval_ms=settings.pull_interval_ms)
        self.saved = saved
        self._http = http
        self._settings = settings
        self._topic = topic
        self._deliver = deliver
        self._moved = moved
        self._is_failing = False

    async def run(self, resumed: asyncio.Event) -> None:
        """Pull for ever, even after errors. Raises InvalidConfiguration if the broker refuses every pull."""
        while True:
            await resumed.wait()
            pause_ms = self.loop.wait_ms()
            if not pause_ms:
                try:
                    pause_ms = await self._pull()
                except InvalidConfiguration:
                    raise
                except Exception as error:
                    # Continue after any error. If the loop ended, the consumer would silently get no more messages.
                    self._note_failure(error)
                    pause_ms = FAILED_MS
            await asyncio.sleep(pause_ms / 1000)

    async def _pull(self) -> int:
        clock, settings = asyncio.get_running_loop().time, self._settings
        began_s = clock()
        offset = self.loop.next_offset
        answer = await self._http.pull(
            queue=self.queue,
            offset=offset,
            max_messages=settings.max_messages,
            tags=settings.tags,
            property_filter=settings.property_filter,
            hold_ms=settings.hold_ms,
            timeout_s=settings.request_timeout_ms / 1000,
        )
        step = self.loop.answered(answer, waited_ms=1000 * (clock() - began_s))
        if step.messages:  # deliver first: the loop already counts them as delivered
            self._deliver(
                PulledMessage(read, topic=self._topic, queue=self.queue, epoch=self.loop.epoch)
                for read in step.messages
            )
        self._note(answer, step)
        if step.moved_from is not None:
            await self._moved()
        if self._is_failing:
            self._is_failing = False
            logger.info("%s, queue %d: pulling works again", self._topic, self.queue)
        return step.pause_ms

    def _note(self, answer: ReadAnswer, step: PullStep) -> None:
        if answer.unreadable_messages:
            logger.warning(
                "%s, queue %d: %d messages before offset %d cannot be read",
                self._topic,
                self.queue,
                answer.unreadable_messages,
                answer.next_begin_offset,
            )
        if step.moved_from is not None:
            logger.warning(
                "%s, queue %d: the queue has offsets %d to %d, and not %d; pulling continues at %d",
                self._topic,
                self.queue,
                answer.min_offset,
                answer.max_offset,
                step.moved_from,
                answer.next_begin_offset,
            )

    def _note_failure(self, error: Exception) -> None:
        """Log the first of several failures, so that a broker that is away for an hour causes one line per queue."""
        if self._is_failing:
            return
        self._is_failing = True
        logger.warning(
            "%s, queue %d: cannot pull, will try again every %d ms: %s",
            self._topic,
            self.queue,
            FAILED_MS,
            error,
            exc_info=None if isinstance(error, VelaError) else error,
        )
