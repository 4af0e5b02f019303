"""Answer long-poll pulls at once, or park them until a message arrives or they time out.

A queue is a partition, or a topic without partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from broker.core.parked_pulls import Matches, ParkedRequests, QueueKey
from broker.core.topic_name import TopicName
from broker.pulls.reader import PullReader, bounds, empty_answer
from broker.pulls.values import ParkedPull, PullAnswer, PullAsk, PullStatus

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.core.entry import StoredEntry
    from broker.core.position import Position
    from broker.deadlines import Deadlines
    from broker.tasks import BackgroundTasks
    from broker.topics.topic import Topic

__all__ = ["ParkedPulls", "topic_of"]

logger = logging.getLogger(__name__)

_Question: TypeAlias = "tuple[int, int, Matches | None]"  # Offset, message limit and filter


class ParkedPulls:
    """The parked pulls of this process. Call the methods only from the event loop."""

    def __init__(
        self,
        topic_in_memory: Callable[[str], Topic | None],
        clock: Clock,
        deadlines: Deadlines,
        tasks: BackgroundTasks,
        *,
        max_message_bytes: int,
        longest_ms: int | None,
    ) -> None:
        """If set, `longest_ms` replaces the parking time that clients ask for."""
        self._topic_in_memory = topic_in_memory
        self._clock = clock
        self._deadlines = deadlines
        self._tasks = tasks
        self._longest_ms = longest_ms
        self._table: ParkedRequests[ParkedPull] = ParkedRequests()
        self._reader = PullReader(max_message_bytes=max_message_bytes)
        self._is_stopping = False
        self._changed: set[QueueKey] = set()
        self.answers: dict[PullStatus, int] = dict.fromkeys(PullStatus, 0)
        self.parked_total = 0
        self.wake_ups = 0

    def __len__(self) -> int:
        return len(self._table)

    def take_changed(self, most: int) -> dict[QueueKey, list[ParkedPull]]:
        """Return at most `most` queues whose parked pulls have changed, with the pulls that are parked now.

        Later calls return a queue again only if its parked pulls change again.
        """
        taken = [self._changed.pop() for _ in range(min(most, len(self._changed)))]
        queues = self._table.queues()
        return {key: list(queues.get(key, ())) for key in taken}

    def changed_again(self, keys: Iterable[QueueKey]) -> None:
        """Make `take_changed` return these queues again."""
        self._changed.update(keys)

    def waits_for(self, name: TopicName) -> bool:
        """Return whether a pull of this topic is parked."""
        return _key(name) in self._table

    async def pull(self, topic: Topic, ask: PullAsk) -> PullAnswer | ParkedPull:
        """Answer a pull, or park it. Raises BrokerError and psycopg.Error."""
        found = self.pull_now(topic, ask)
        return self._counted(await self._reader.read(topic, ask)) if found is None else found

    def pull_now(self, topic: Topic, ask: PullAsk) -> PullAnswer | ParkedPull | None:
        """Answer or park a pull without a database query. Return None if a query is needed."""
        low, end = bounds(topic)
        if not low <= ask.offset <= end:
            moved_to = low if ask.offset < low else end
            return self._counted(empty_answer(topic, PullStatus.OFFSET_MOVED, moved_to))
        if ask.offset < end:
            answer = self._reader.read_in_memory(topic, ask)
            return None if answer is None else self._counted(answer)
        if not ask.may_suspend or self._is_stopping:
            return self._counted(empty_answer(topic, PullStatus.NOT_FOUND, ask.offset))
        return self._park(topic, ask)

    def _park(self, topic: Topic, ask: PullAsk) -> ParkedPull:
        parked = ParkedPull(
            key=_key(topic.name),
            offset=ask.offset,
            parked_ms=self._clock.now_ms(),
            park_ms=ask.suspend_timeout_ms if self._longest_ms is None else self._longest_ms,
            matches=ask.matches,
            ask=ask,
            answer=asyncio.get_running_loop().create_future(),
        )
        check_ms = self._table.park(parked)
        self._changed.add(parked.key)
        self.parked_total += 1
        self._deadlines.watch(self, check_ms)
        return parked

    def arrived(self, topic: Topic, entries: Sequence[StoredEntry]) -> None:
        """Answer the topic's parked pulls that match a message in `entries` or have timed out."""
        end = topic.log.ledgers.total_messages
        undecoded = self._properties_of(entries)
        decoded: list[tuple[int, Mapping[str, str]]] = []

        def properties_from(offset: int) -> Iterator[Mapping[str, str]]:
            yield from (properties for at, properties in decoded if at >= offset)
            for at, properties in undecoded:
                decoded.append((at, properties))
                if at >= offset:
                    yield properties

        found = self._table.notify(
            _key(topic.name),
            end,
            self._clock.now_ms(),
            newest_again=lambda: end,
            arrived=properties_from,
        )
        self.wake_ups += len(found)
        if found:
            self._changed.add(found[0].key)
        shared: dict[_Question, PullAnswer] = {}
        for parked in found:
            self._execute(topic, parked, entries, shared)

    def run_due(self, now_ms: int) -> int:
        """Answer pulls that have timed out or whose queue has new messages. Return the number of these pulls."""
        ready = self._table.check(now_ms, self._end_of, _log_error)
        self._changed.update(parked.key for parked in ready)
        for parked in ready:
            topic = self._topic_in_memory(topic_of(parked.key))
            if topic is None:
                self._refuse(parked)
            else:
                self._execute(topic, parked, (), {})
        return len(ready)

    def next_due_ms(self) -> int | None:
        """Return the Unix time in milliseconds at which to call `run_due`, or None if no pull is parked."""
        return self._table.next_check_ms()

    async def place(self, topic: Topic, offset: int) -> tuple[Position, int]:
        """Return the position of the entry with the message at `offset`, and the number of messages before this entry.

        Raises BrokerError and psycopg.Error.
        """
        return await self._reader.place(topic, offset)

    def forget(self, parked: ParkedPull) -> None:
        """Remove a parked pull, and do not answer it. Safe to repeat."""
        self._table.discard(parked)
        self._changed.add(parked.key)

    def topic_gone(self, topic: Topic) -> None:
        """Answer the parked pulls of a closed topic."""
        self._changed.add(_key(topic.name))
        for parked in self._table.take(_key(topic.name)):
            self._resolve(parked, empty_answer(topic, PullStatus.NOT_FOUND, parked.offset))

    def stop(self) -> None:
        """Answer every parked pull. Later pulls are not parked."""
        self._is_stopping = True
        for parked in self._table.take_all():
            self._refuse(parked)

    def _execute(
        self,
        topic: Topic,
        parked: ParkedPull,
        entries: Sequence[StoredEntry],
        shared: dict[_Question, PullAnswer],
    ) -> None:
        try:
            low, end = bounds(topic)
            if not low <= parked.offset <= end:
                moved_to = low if parked.offset < low else end
                self._resolve(parked, empty_answer(topic, PullStatus.OFFSET_MOVED, moved_to))
            elif parked.offset == end:
                self._resolve(parked, empty_answer(topic, PullStatus.NOT_FOUND, parked.offset))
            elif entries and entries[0].cumulative_messages - entries[0].messages <= parked.offset:
                question = parked.offset, parked.ask.max_messages, parked.matches
                answer = shared.get(question)
                if answer is None:
                    rest = [entry for entry in entries if entry.cumulative_messages > parked.offset]
                    answer = shared[question] = self._reader.answer(topic, parked.ask, rest)
                self._resolve(parked, answer)
            else:
                self._tasks.keep(asyncio.create_task(self._read_then_resolve(topic, parked)))
        except Exception:
            logger.exception("answering a parked pull of %s failed", topic.name)
            self._refuse(parked)

    async def _read_then_resolve(self, topic: Topic, parked: ParkedPull) -> None:
        try:
            self._resolve(parked, await self._reader.read(topic, parked.ask))
        except Exception:
            logger.exception("answering a parked pull of %s failed", topic.name)
            self._refuse(parked)

    def _refuse(self, parked: ParkedPull) -> None:
        answer = PullAnswer(
            status=PullStatus.NOT_FOUND,
            next_begin_offset=parked.offset,
            min_offset=0,
            max_offset=parked.offset,
            partition=parked.key.queue,
        )
        self._resolve(parked, answer)

    def _resolve(self, parked: ParkedPull, answer: PullAnswer) -> None:
        if not parked.answer.done():
            parked.answer.set_result(self._counted(answer))

    def _counted(self, answer: PullAnswer) -> PullAnswer:
        self.answers[answer.status] += 1
        return answer

    def _properties_of(self, entries: Sequence[StoredEntry]) -> Iterator[tuple[int, Mapping[str, str]]]:
        for entry in entries:
            first = entry.cumulative_messages - entry.messages
            for message in self._reader.messages(entry) or ():
                yield first + max(0, message.batch_index), message.properties

    def _end_of(self, key: QueueKey) -> int:
        topic = self._topic_in_memory(topic_of(key))
        return -1 if topic is None else topic.log.ledgers.total_messages


def _log_error(key: QueueKey, error: Exception) -> None:
    logger.error("checking parked pulls of %s, queue %s failed: %r", key.topic, key.queue, error)


def _key(name: TopicName) -> QueueKey:
    return QueueKey(name.base, -1 if name.partition is None else name.partition)


def topic_of(key: QueueKey) -> str:
    """Return the full topic name of a queue."""
    return key.topic if key.queue < 0 else f"{key.topic}-partition-{key.queue}"
