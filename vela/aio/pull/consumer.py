"""`vela.aio.PullConsumer`: pull a topic's queues over HTTP, as RocketMQ's consumers do.

One task for each queue pulls again and again. The broker parks a pull while there is no message: it answers when one
arrives, or after `hold_ms`. Messages from all queues wait in one list for `receive`, async iteration or a listener. The
consumer remembers which messages are finished, and regularly saves the smallest unfinished offset. After a crash, the
next consumer pulls from that offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from vela.aio.connections.tls import TlsOptions
from vela.aio.pull.http import PullHttp
from vela.aio.pull.listener import PullListener
from vela.aio.pull.offsets import BrokerOffsets, OffsetStore
from vela.aio.pull.queue import QueuePuller
from vela.aio.pull.settings import PullSettings, pulled_topic
from vela.authentication import Authentication, AuthenticationDisabled
from vela.core.argument_checks import milliseconds, require_callable, require_kind
from vela.core.consuming.pull_loop import PullLimits
from vela.errors import AlreadyClosed, ConsumerNotInitialized, InvalidConfiguration, Timeout, VelaError
from vela.options import InitialPosition
from vela.pull_message import PulledMessage

__all__ = ["Listener", "PullConsumer", "QueuePosition"]

logger = logging.getLogger(__name__)

PUSH_HOLD_MS: Final = 15_000
PULL_HOLD_MS: Final = 20_000
REQUEST_TIMEOUT_MS: Final = 30_000
COMMIT_INTERVAL_MS: Final = 5_000
LOOK_FOR_QUEUES_MS: Final = 20_000
RETRY_DELAY_MS: Final = 1_000
MAX_RECONSUME_TIMES: Final = 16

Listener = Callable[["PullConsumer", PulledMessage], "Awaitable[None] | None"]


class QueuePosition(NamedTuple):
    """The progress of one queue."""

    next_offset: int  # where the next pull begins
    commit_offset: int  # the smallest offset that is not finished
    max_offset: int  # the queue's end, as the broker last reported it


class PullConsumer:
    """A consumer that pulls all queues of a topic, or some. Use it on one event loop.

        async with PullConsumer("http://localhost:8080", "orders", "billing") as consumer:
            async for message in consumer:
                ...
                consumer.acknowledge(message)

    Consumers of one group do not share the work: each gets all messages. To share the work, give each its own `queues`.
    """

    def __init__(
        self,
        service_url: str,
        topic: str,
        subscription_name: str | None = None,
        *,
        offset_store: OffsetStore | None = None,
        initial_position: InitialPosition = InitialPosition.Latest,
        queues: Sequence[int] | None = None,
        tags: str = "*",
        property_filter: str = "",
        message_listener: Listener | None = None,
        listener_concurrency: int = 1,
        negative_ack_redelivery_delay_ms: int = RETRY_DELAY_MS,
        max_reconsume_times: int = MAX_RECONSUME_TIMES,
        max_messages: int = 32,
        pull_interval_ms: int = 0,
        hold_ms: int | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        limits: PullLimits | None = None,
        commit_interval_ms: int = COMMIT_INTERVAL_MS,
        authentication: Authentication | None = None,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = False,
    ) -> None:
        """The consumer sends nothing before `start`. Raises InvalidUrl, InvalidTopicName, InvalidConfiguration.

        service_url: http://host:8080, https://, or the ws:// and wss:// address of the same port.
        subscription_name: the group whose offsets the broker keeps; not needed with an `offset_store`.
        initial_position: where a queue without a stored offset begins.
        queues: numbers of queues; None = all, including new ones.
        tags, property_filter: which messages to pull; docs/reference/pull.md explains both.
        message_listener: called for each message; a coroutine function, or a plain function, which runs in a thread. A
            message is finished when the listener returns. If the listener raises, the consumer calls it again after
            `negative_ack_redelivery_delay_ms`, up to `max_reconsume_times` times. After that, it logs the message and
            gives it up.
        listener_concurrency: how many listener calls run at the same time; 1 keeps each queue's order, except for
            messages that are delivered again.
        max_messages: limit for one pull. pull_interval_ms: time between an answer with messages and the next pull.
        hold_ms: how long the broker may park a pull; None = 15,000 with a listener, 20,000 without.
        request_timeout_ms: a pull without an answer after this time is repeated; must be longer than `hold_ms`.
        limits: how much of one queue may be unfinished.
        commit_interval_ms: time between two saves of the offsets.
        """
        self._topic = pulled_topic(topic)
        if hold_ms is None:
            hold_ms = PULL_HOLD_MS if message_listener is None else PUSH_HOLD_MS
        self._settings = PullSettings(
            queues=queues,
            tags=tags,
            property_filter=property_filter,
            listener_concurrency=listener_concurrency,
            negative_ack_redelivery_delay_ms=negative_ack_redelivery_delay_ms,
            max_reconsume_times=max_reconsume_times,
            max_messages=max_messages,
            pull_interval_ms=pull_interval_ms,
            hold_ms=hold_ms,
            request_timeout_ms=request_timeout_ms,
            commit_interval_ms=commit_interval_ms,
            limits=limits or PullLimits(),
        )
        if (offset_store is None) == (subscription_name is None):
            raise InvalidConfiguration(
                "give subscription_name, whose offsets the broker keeps, or an offset_store"
            )
        require_kind("authentication", authentication, Authentication)
        require_callable("message_listener", message_listener)
        authentication = authentication or AuthenticationDisabled()
        certificate, private_key = authentication.tls_certificate_files() or (None, None)
        self._http = PullHttp(
            service_url,
            self._topic,
            authentication=authentication,
            tls=TlsOptions(
                trust_certs_file_path=tls_trust_certs_file_path,
                allow_insecure_connection=tls_allow_insecure_connection,
                validate_hostname=tls_validate_hostname,
                certificate_file_path=certificate,
                private_key_file_path=private_key,
            ),
        )
        self._store = offset_store or BrokerOffsets(self._http, subscription_name or "")
        self._initial_position = initial_position
        self._listener = (
            None if message_listener is None else PullListener(self, message_listener, listener_concurrency)
        )
        self._pullers: dict[int, QueuePuller] = {}
        self._arrived: deque[PulledMessage] = deque()
        self._news = asyncio.Event()  # set when a message arrives or waiting must end
        self._tasks: list[asyncio.Task[None]] = []
        self._given_back: dict[PulledMessage, asyncio.TimerHandle] = {}
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._starting = asyncio.Lock()
        self._closing = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._failure: VelaError | None = None
        self._is_started = False
        self._is_closed = False

    # --- life

    async def start(self) -> None:
        """Find the queues and where to begin, then start to pull. Safe to repeat, even after an error.

        Raises InvalidConfiguration if a queue does not exist, the broker's other refusals, ConnectError, Timeout,
        AlreadyClosed and the errors of the offset store. Call `close` even after an error.
        """
        async with self._starting:
            self._require_open()
            if not self._is_started:
                self._pullers = {
                    queue: await self._opened(queue, self._initial_position)
                    for queue in await self._queue_numbers()
                }
                # Save now, so that a restart continues here, even in a queue that begins at its end.
                await self._save()
                self._require_open()
                self._begin()

    def _begin(self) -> None:
        self._is_started = True
        self._tasks = [asyncio.create_task(self._commit_regularly())]
        if self._settings.queues is None:
            self._tasks.append(asyncio.create_task(self._look_for_queues()))
        if self._listener is not None:
            self._listener.start()
        for puller in self._pullers.values():
            self._tasks.append(asyncio.create_task(self._keep_pulling(puller)))

    async def close(self) -> None:
        """Stop pulling, wait for running listeners, and save the offsets. Safe to repeat.

        A consumer that starts from these offsets begins each queue at the first unacknowledged message. Raises the
        store's errors; such a consumer then begins at the offsets saved before. A second call waits for the first one
        and raises nothing. In a listener that is a coroutine function it does not wait, because the first call may wait
        for that listener.
        """
        if self._is_closed and self._listener is not None and self._listener.runs_here():
            return
        async with self._closing:
            if not self._is_closed:
                self._is_closed = True
                await self._close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for timer in self._given_back.values():
            timer.cancel()
        self._news.set()
        try:
            if self._listener is not None:
                await self._listener.stop()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._is_started:
                await self._save()
        finally:
            await self._http.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- messages

    async def receive(self, timeout_millis: int | None = None) -> PulledMessage:
        """Wait for the next message and return it. Safe to cancel: no message is lost.

        Raises Timeout, AlreadyClosed, ConsumerNotInitialized before `start`, and InvalidConfiguration if there is a
        listener or if the broker refuses every pull.
        """
        if self._listener is not None:
            raise InvalidConfiguration("a consumer with a message_listener has no receive()")
        timeout_ms = None if timeout_millis is None else milliseconds("timeout_millis", timeout_millis)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await self.next_message()
        except TimeoutError:
            raise Timeout(f"no message within {timeout_millis} ms") from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PulledMessage:
        try:
            return await self.receive()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    def acknowledge(self, message: PulledMessage) -> None:
        """Mark a message as finished. No effect if repeated, or if the broker has moved the queue's offset since."""
        puller = self._pullers.get(message.queue)
        if puller is not None:
            puller.loop.finish(message.offset(), message.epoch)

    def negative_acknowledge(self, message: PulledMessage) -> None:
        """Deliver a message again after `negative_ack_redelivery_delay_ms`.

        A message that was delivered again `max_reconsume_times` times is logged and counts as finished. No effect if
        the message is acknowledged, or already waits for redelivery.
        """
        if self._is_closed or message in self._given_back or not self._is_unfinished(message):
            return
        message.attempts += 1
        if message.attempts > self._settings.max_reconsume_times:
            logger.error("gave up %r after %d attempts", message, message.attempts)
            self.acknowledge(message)
            return

        def again() -> None:
            del self._given_back[message]
            self._arrived.appendleft(message)
            self._news.set()

        self._given_back[message] = asyncio.get_running_loop().call_later(
            self._settings.negative_ack_redelivery_delay_ms / 1000, again
        )

    def pause(self) -> None:
        """Start no more pulls. You can still receive messages of earlier pulls and of pulls that are parked now."""
        self._resumed.clear()

    def resume(self) -> None:
        """Pull again."""
        self._resumed.set()

    async def commit(self) -> None:
        """Save the offsets now. Raises the store's errors."""
        await self._save()

    def positions(self) -> Mapping[int, QueuePosition]:
        """Return the progress of each queue, by its number."""
        return {
            puller.queue: QueuePosition(
                puller.loop.next_offset, puller.loop.commit_offset, puller.loop.max_offset
            )
            for puller in self._pullers.values()
        }

    def _is_unfinished(self, message: PulledMessage) -> bool:
        puller = self._pullers.get(message.queue)
        return puller is not None and puller.loop.holds(message.offset(), message.epoch)

    async def next_message(self) -> PulledMessage:
        """Wait for the next message without limit. For `receive` and listeners."""
        while True:
            self._require_open()
            while self._arrived:
                message = self._arrived.popleft()
                if self._is_unfinished(message):
                    return message
            if self._failure is not None:
                raise self._failure
            if not self._is_started:
                raise ConsumerNotInitialized("start the consumer: `async with`, or `await consumer.start()`")
            self._news.clear()
            await self._news.wait()

    def _require_open(self) -> None:
        if self._is_closed:
            raise AlreadyClosed("the consumer is closed")

    # --- queues

    async def _queue_numbers(self) -> Sequence[int]:
        count = await self._http.queues()
        wanted = self._settings.queues
        if wanted is None:
            return range(count)
        if max(wanted) >= count:
            raise InvalidConfiguration(
                f"{self._topic} has {count} queues, numbered from 0; there is no {max(wanted)}"
            )
        return wanted

    async def _opened(self, queue: int, position: InitialPosition) -> QueuePuller:
        """Return the puller of a queue at its stored offset, or at `position` if none is stored."""
        async with self._saving:
            saved = await self._store.load(self._topic, queue)
        offset = saved
        if offset is None:
            ends = await self._http.pull(queue=queue, offset=0, max_messages=1)
            offset = ends.max_offset if position == InitialPosition.Latest else ends.min_offset
        return QueuePuller(
            self._http,
            self._settings,
            topic=self._topic,
            queue=queue,
            offset=offset,
            saved=saved,
            deliver=self._deliver,
            moved=self._save_or_warn,
        )

    def _deliver(self, messages: Iterable[PulledMessage]) -> None:
        self._arrived.extend(messages)
        self._news.set()

    async def _keep_pulling(self, puller: QueuePuller) -> None:
        try:
            await puller.run(self._resumed)
        except InvalidConfiguration as error:
            logger.error("%s, queue %d: cannot pull: %s", self._topic, puller.queue, error)
            self._failure = error
            self._news.set()

    async def _look_for_queues(self) -> None:
        while True:
            await asyncio.sleep(LOOK_FOR_QUEUES_MS / 1000)
            try:
                for queue in await self._queue_numbers():
                    if queue not in self._pullers:
                        # A queue that was added later begins at its first message: all its messages are new.
                        puller = await self._opened(queue, InitialPosition.Earliest)
                        self._pullers[queue] = puller
                        self._tasks.append(asyncio.create_task(self._keep_pulling(puller)))
            except Exception as error:
                logger.warning("%s: cannot look for new queues, will try again: %s", self._topic, error)

    # --- offsets

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._settings.commit_interval_ms / 1000)
            await self._save_or_warn()

    async def _save_or_warn(self) -> None:
        """Save the offsets. If that fails, log it: `_commit_regularly` tries again."""
        try:
            await self._save()
        except Exception as error:
            logger.warning("%s: cannot save the offsets, will try again: %s", self._topic, error)

    async def _save(self) -> None:
        async with self._saving:
            offsets = {
                puller.queue: puller.loop.commit_offset
                for puller in self._pullers.values()
                if puller.loop.commit_offset != puller.saved
            }
            if offsets:
                await self._store.save(self._topic, offsets)
                for queue, offset in offsets.items():
                    self._pullers[queue].saved = offset
