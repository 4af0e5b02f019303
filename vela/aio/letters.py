"""Dead letters and retry letters of one consumer: what becomes one, and what then becomes of the original (I16).

A letter is written, its receipt awaited, and only then is the original acked. What fails is delivered again: a message
is acked by the application, or stored on the topic of its letter, or both, and never neither.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol

from vela.core.outgoing import Outgoing
from vela.errors import AlreadyClosed, InvalidConfiguration, VelaError
from vela.message import Message
from vela.wire import message_id as wire
from vela.wire.letters import dead_letter_properties, retry_properties, times_reconsumed
from vela.wire.redelivery_backoff import RedeliveryBackoff

if TYPE_CHECKING:
    from vela.aio.ack_side import AckSide
    from vela.aio.letter_box import LetterBox
    from vela.aio.timers import Timers
    from vela.core.batch_acks import Position
    from vela.message import ReceivedEntry

__all__ = ["Letters", "LettersOwner"]

log = logging.getLogger(__name__)

_AFTER_FAILURE: Final = RedeliveryBackoff(min_ms=1000, max_ms=60_000, multiplier=2)
_TOGETHER: Final = 100  # messages of one batch
_FINISH_S: Final = 5.0  # letters under way when the consumer is closed
_NO_PROPERTIES: Final[Mapping[str, str]] = {}


class LettersOwner(Protocol):
    """The consumer, as far as its letters need it."""

    acks: AckSide

    def consumer_name(self) -> str:
        """Its name."""

    def redelivered_locally(self, positions: Sequence[Position]) -> None:
        """See `AckOwner`: here, these entries become letters."""

    def passed_over(self, messages: Sequence[Message]) -> None:
        """Messages that were delivered and will not be shown: their permits can be given back."""


class Letters:
    """A `RedeliveryFilter`. The consumer passes what it receives through `arrived`."""

    def __init__(self, owner: LettersOwner, box: LetterBox, timers: Timers) -> None:
        self._owner = owner
        self._box = box
        self._timers = timers
        self._kept: dict[Position, list[Message]] = {}  # entries that may become letters when they are due
        self._busy: dict[Position, int] = {}  # letters under way, by the entry they are of
        self._wanted_again: set[Position] = set()  # of busy entries
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0  # in a row
        self._is_closed = False
        box.open()

    # -- what becomes a letter -------------------------------------------------------------------------------------

    def arrived(self, messages: list[Message]) -> list[Message]:
        """Messages that came, in order; without those that are dead letters at once."""
        if messages[0].entry is messages[-1].entry:
            return messages if self._is_shown(messages[0].entry, messages) else []
        shown: list[Message] = []
        for entry, group in groupby(messages, key=lambda message: message.entry):
            together = list(group)
            if self._is_shown(entry, together):
                shown += together
        return shown

    def _is_shown(self, entry: ReceivedEntry, messages: list[Message]) -> bool:
        policy, count = self._box.policy, entry.redelivery_count
        position = (entry.ledger_id, entry.entry_id)
        if policy.bypasses(count):
            if position in self._busy:  # it came again over another link, before its letter was stored
                self._wanted_again.add(position)
                self._owner.passed_over(messages)
            else:
                self._start(messages, self._dead_letter, shown=False)
            return False
        if self._box.on_ack_timeout or policy.ends(count):
            self._kept[position] = messages
        return True

    def still_due(self, positions: Sequence[Position], *, is_timeout: bool) -> Sequence[Position]:
        """See `RedeliveryFilter`: what becomes a letter must not be asked for too (S4.31)."""
        if not self._kept and not self._busy:
            return positions
        wanted: list[Position] = []
        for position in positions:
            if position in self._busy:
                self._wanted_again.add(position)  # by messages of its that are no letter
                continue
            messages = self._kept.pop(position, None)
            is_dead = messages is not None and self._box.policy.ends(messages[0].entry.redelivery_count)
            if messages is None or not (is_dead or (is_timeout and self._box.on_ack_timeout)):
                wanted.append(position)
                continue
            self._owner.redelivered_locally([position])
            entry = messages[0].entry
            left = self._owner.acks.unacked_messages(entry.ledger_id, entry.entry_id, entry.batch_size)
            messages = [each for each in messages if left >> max(each.body.batch_index, 0) & 1]
            self._start(messages, self._dead_letter if is_dead else self._retry_letter, shown=True)
        return wanted

    def settled(self, position: Position) -> None:
        """See `RedeliveryFilter`."""
        self._kept.pop(position, None)

    def settled_through(self, position: Position) -> None:
        """See `RedeliveryFilter`."""
        for known in [known for known in self._kept if known <= position]:
            del self._kept[known]

    def forget(self) -> None:
        """See `RedeliveryFilter`. Letters under way are finished."""
        self._kept.clear()
        self._wanted_again.clear()

    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None
    ) -> None:
        """See `Consumer.reconsume_later`."""
        if self._box.retry_topic is None:
            raise InvalidConfiguration("reconsume_later needs a consumer made with retry_enable=True")
        if self._is_closed:
            raise AlreadyClosed("the consumer is closed: its messages are delivered to others")
        delay_ms = int(delay / timedelta(milliseconds=1)) if isinstance(delay, timedelta) else delay
        if delay_ms < 0:
            raise InvalidConfiguration(f"a message cannot be put off by {delay_ms} ms")

        async def write(each: Message) -> None:
            await self._retry_letter(each, delay_ms, properties or _NO_PROPERTIES)

        await asyncio.shield(self._start([message], write, shown=True))

    # -- writing it ------------------------------------------------------------------------------------------------

    def _start(
        self, messages: list[Message], write: Callable[[Message], Awaitable[None]], *, shown: bool
    ) -> asyncio.Task[None]:
        entry = messages[0].entry
        position = (entry.ledger_id, entry.entry_id)
        self._busy[position] = self._busy.get(position, 0) + 1
        task = asyncio.get_running_loop().create_task(self._run(position, messages, write, shown))
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it was logged; only `reconsume_later` awaits it

    async def _run(
        self,
        position: Position,
        messages: list[Message],
        write: Callable[[Message], Awaitable[None]],
        shown: bool,
    ) -> None:
        error: Exception | None = None
        try:
            async with self._box.turns:
                for start in range(0, len(messages), _TOGETHER):
                    await self._write(messages[start : start + _TOGETHER], write)
        except Exception as failure:
            error = failure
            raise
        finally:
            self._release(position)
            if not shown:
                self._owner.passed_over(messages)
            if error is not None:
                self._failed(position, error)
            elif position in self._wanted_again and position not in self._busy:
                self._wanted_again.discard(position)
                self._owner.acks.ask_again([position])

    async def _write(self, messages: list[Message], write: Callable[[Message], Awaitable[None]]) -> None:
        """Write each, and ack those whose letter is stored. Raises the first failure."""

        async def one(message: Message) -> None:
            await write(message)
            await self._owner.acks.acknowledge(message)

        outcomes = await asyncio.gather(*(one(message) for message in messages), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        self._failures = 0

    def _release(self, position: Position) -> None:
        left = self._busy[position] - 1
        if left:
            self._busy[position] = left
        else:
            del self._busy[position]

    def _failed(self, position: Position, error: Exception) -> None:
        """It is delivered again: at once the first time, then less and less often while nothing can be written."""
        if self._is_closed:
            return
        delay_ms = _AFTER_FAILURE.delay_ms(self._failures - 1) if self._failures else 0
        self._failures += 1
        known = isinstance(error, VelaError)
        log.warning(
            "subscription %s: no letter of message %s:%s, it is delivered again: %s",
            self._box.subscription,
            *position,
            error,
            exc_info=None if known else error,
        )
        self._wanted_again.discard(position)
        self._timers.call_later(delay_ms, lambda: self._ask_again(position))

    def _ask_again(self, position: Position) -> None:
        if not self._is_closed:
            self._owner.acks.ask_again([position])

    async def _dead_letter(self, message: Message) -> None:
        properties = dead_letter_properties(
            message.properties(),
            topic=message.topic_name(),
            message_id=_wire_id(message),
            subscription=self._box.subscription,
        )
        await self._box.send_dead(
            _copy(message, properties),
            topic=message.topic_name(),
            consumer_name=self._owner.consumer_name(),
        )

    async def _retry_letter(
        self, message: Message, delay_ms: int = 0, custom: Mapping[str, str] = _NO_PROPERTIES
    ) -> None:
        """To the retry-letter topic; one put off more often than the policy allows is a dead letter."""
        properties = retry_properties(
            message.properties(),
            topic=message.topic_name(),
            message_id=_wire_id(message),
            subscription=self._box.subscription,
            delay_ms=delay_ms,
            custom=custom,
        )
        is_dead = times_reconsumed(properties) > self._box.policy.max_redeliver_count
        deliver_at_ms = int(time.time() * 1000) + delay_ms if delay_ms and not is_dead else None
        await (self._box.send_dead if is_dead else self._box.send_retry)(
            _copy(message, properties, deliver_at_ms),
            topic=message.topic_name(),
            consumer_name=self._owner.consumer_name(),
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Letters under way are finished, for a while; the rest is delivered to others. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        self.forget()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_FINISH_S)
            for task in late:
                task.cancel()
        await self._box.close()


def _wire_id(message: Message) -> wire.MessageId:
    entry = message.entry
    return wire.MessageId(entry.ledger_id, entry.entry_id, entry.partition, message.body.batch_index)


def _copy(message: Message, properties: Mapping[str, str], deliver_at_ms: int | None = None) -> Outgoing:
    body = message.body
    return Outgoing(
        body.payload,
        properties,
        body.key,
        body.key_b64,
        body.ordering_key,
        event_time_ms=body.event_time_ms,
        deliver_at_ms=deliver_at_ms,
        null_value=body.null_value,
    )
