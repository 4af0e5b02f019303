"""Dead letters and retry letters of one consumer: which messages become letters, and when the original is acked.

The original is acked only after the receipt of its letter. If writing fails, the message is delivered again or its
letter is written again. So no message of a persistent topic is lost: the application acks it, or it is stored on the
letter's topic, or both.

A batch that arrives after too many redeliveries becomes letters as a whole. Of any other batch, only messages that the
application got become letters. The others stay in the queue, and the application still gets them. While some of them
wait there, a failed letter makes the consumer request the batch again only after `reconsume_later`, because the broker
would send the whole batch. Here, "shown" means that the application got the message or can get it from the queue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol

from vela.aio.deadline import Deadline
from vela.core.argument_checks import require_strings
from vela.core.producing.outgoing import Outgoing
from vela.errors import AlreadyClosed, InvalidConfiguration, VelaError
from vela.message import Message
from vela.wire import message_id as wire
from vela.wire.letters import dead_letter_properties, retry_properties, times_reconsumed
from vela.wire.redelivery_backoff import RedeliveryBackoff

if TYPE_CHECKING:
    from vela.aio.acks.side import AckSide
    from vela.aio.letters.letter_box import LetterBox
    from vela.aio.timers import Timers
    from vela.core.acks.batch_acks import Position
    from vela.message import ReceivedEntry

__all__ = ["Letters", "LettersOwner"]

logger = logging.getLogger(__name__)

_AFTER_FAILURE: Final = RedeliveryBackoff(min_ms=1000, max_ms=60_000, multiplier=2)
_TOGETHER: Final = 100  # limit for letters of one batch written at the same time
_FINISH_S: Final = 5.0  # limit for letters under way when the consumer closes
_NO_PROPERTIES: Final[Mapping[str, str]] = {}


class LettersOwner(Protocol):
    """The part of a consumer's deliveries that its letters need."""

    acks: AckSide

    def waiting(self, positions: Collection[Position]) -> Iterable[Message]:
        """Return messages of these entries that have arrived but that the application has not taken."""

    def passed_over(self, messages: Sequence[Message]) -> None:
        """Restore the permits of messages that arrived but will not be shown."""


class _Busy:
    """An entry whose letters are being written."""

    __slots__ = ("is_over", "letters", "wanted_by_timeout")

    def __init__(self) -> None:
        self.letters = 0  # number of tasks that write its letters
        self.is_over = False  # acked or delivered again since the last task began
        self.wanted_by_timeout: bool | None = None
        """Why to request the entry again: True = only an ack timeout, False = another reason, None = no reason."""


class Letters:
    """A `RedeliveryFilter` for one consumer, which passes arriving messages through `arrived`."""

    def __init__(self, owner: LettersOwner, box: LetterBox, timers: Timers, consumer_name: str) -> None:
        self._owner = owner
        self._consumer_name = consumer_name
        self._box = box
        self._timers = timers
        # entries that may become letters instead of being delivered again
        self._kept: dict[Position, list[Message]] = {}
        self._busy: dict[Position, _Busy] = {}
        # entries to try again after a pause; True = only letters that an ack timeout began have failed
        self._failed: dict[Position, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0  # since the last success
        self._is_closed = False
        box.open()

    # -- choosing letters ------------------------------------------------------------------------------------------

    def arrived(self, messages: list[Message]) -> list[Message]:
        """Return the messages to show, in order. The others become dead letters at once."""
        if messages[0].entry is messages[-1].entry:
            return messages if self._is_shown(messages[0].entry, messages) else []
        shown: list[Message] = []
        for entry, group in groupby(messages, key=lambda message: message.entry):
            together = list(group)
            if self._is_shown(entry, together):
                shown += together
        return shown

    def _is_shown(self, entry: ReceivedEntry, messages: list[Message]) -> bool:
        """Return whether to show the messages of an entry. If not, begin to make them dead letters."""
        policy, count = self._box.policy, entry.redelivery_count
        position = (entry.ledger_id, entry.entry_id)
        if policy.bypasses(count):
            if entry.chunks:
                self._owner.acks.remember_chunks(entry)
            if busy := self._busy.get(position):  # delivered again before its letter was stored
                busy.wanted_by_timeout = False
                self._owner.passed_over(messages)
            else:
                self._start(messages, self._dead_letter, shown=False)
            return False
        if self._box.on_ack_timeout or policy.ends(count):
            self._kept[position] = messages
        return True

    def still_due(self, positions: Sequence[Position], *, is_timeout: bool) -> Sequence[Position]:
        if not self._kept and not self._busy:
            return positions
        wanted: list[Position] = []
        ending: list[Position] = []
        for position in positions:
            if busy := self._busy.get(position):  # decide again when its letters are written
                busy.wanted_by_timeout = is_timeout and busy.wanted_by_timeout is not False
            elif self._ends(position, is_timeout=is_timeout):
                ending.append(position)
            else:
                self._kept.pop(position, None)
                wanted.append(position)
        if ending:
            self._write_shown(ending)
        return wanted

    def _ends(self, position: Position, *, is_timeout: bool) -> bool:
        """Return whether the shown messages of this entry become letters."""
        messages = self._kept.get(position)
        return messages is not None and ((is_timeout and self._box.on_ack_timeout) or self._is_dead(messages))

    def _is_dead(self, messages: Sequence[Message]) -> bool:
        return self._box.policy.ends(messages[0].entry.redelivery_count)

    def _write_shown(self, positions: Sequence[Position]) -> None:
        """Begin to write letters for the messages of these entries that the application has taken and not acked."""
        waiting: dict[Position, int] = {}
        for each in self._owner.waiting(positions):
            position = (each.entry.ledger_id, each.entry.entry_id)
            waiting[position] = waiting.get(position, 0) | _bit(each)
        for position in positions:
            messages = self._kept[position]
            unseen = waiting.get(position, 0)
            if not unseen:
                del self._kept[position]
            size = messages[0].entry.batch_size
            due = self._owner.acks.unacked_messages(*position, size) & ~unseen
            if shown := [each for each in messages if due & _bit(each)]:
                write = self._dead_letter if self._is_dead(messages) else self._retry_letter
                self._start(shown, write, shown=True)

    def may_end(self, message: Message) -> bool:
        """Return whether the message's entry may become letters.

        If it does, a message that was taken from the queue becomes one, even if the application has not seen it.
        """
        return (message.entry.ledger_id, message.entry.entry_id) in self._kept

    def settled(self, position: Position) -> None:
        self._kept.pop(position, None)
        self._failed.pop(position, None)
        if busy := self._busy.get(position):
            busy.wanted_by_timeout, busy.is_over = None, True

    def settled_through(self, position: Position) -> None:
        for known in [known for known in {*self._kept, *self._busy, *self._failed} if known <= position]:
            self.settled(known)

    def forget(self) -> None:
        """Forget all entries. Letters that are under way are still written."""
        self._kept.clear()
        self._failed.clear()
        for busy in self._busy.values():
            busy.wanted_by_timeout, busy.is_over = None, True

    async def reconsume_later(
        self, message: Message, delay: timedelta | int, properties: Mapping[str, str] | None
    ) -> None:
        """Put a message off, as `Consumer.reconsume_later` explains."""
        if self._box.retry_topic is None:
            raise InvalidConfiguration("reconsume_later needs a consumer created with retry_enable=True")
        if self._is_closed:
            raise AlreadyClosed("the consumer is closed: its unacked messages are delivered again")
        if not isinstance(message, Message):
            raise InvalidConfiguration(f"reconsume_later takes a received message, not {message!r}")
        delay_ms = _milliseconds(delay)
        if properties is not None:
            require_strings("properties", properties)

        async def write(each: Message) -> None:
            await self._retry_letter(each, delay_ms, properties or _NO_PROPERTIES)

        if message.entry.chunks:
            self._owner.acks.remember_chunks(message.entry)
        writing = self._start([message], write, shown=True)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            if writing.cancelled():  # `close` has waited long enough and cancelled it
                raise AlreadyClosed("the consumer was closed before the copy was stored") from None
            raise

    # -- writing letters -------------------------------------------------------------------------------------------

    def _start(
        self, messages: list[Message], write: Callable[[Message], Awaitable[None]], *, shown: bool
    ) -> asyncio.Task[None]:
        """Begin to write letters for messages of an entry. At the end, restore permits unless they are `shown`."""
        entry = messages[0].entry
        position = (entry.ledger_id, entry.entry_id)
        busy = self._busy.setdefault(position, _Busy())
        busy.letters += 1
        busy.is_over = False
        task = asyncio.get_running_loop().create_task(self._run(position, messages, write, shown))
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as seen: `_could_not_write` logs it, and only `reconsume_later` awaits it

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
            if not shown:
                self._owner.passed_over(messages)
            busy = self._busy[position]
            busy.letters -= 1
            if not busy.letters:
                del self._busy[position]
            if error is not None:
                # `_write_shown` begins retry letters after an ack timeout only.
                by_timeout = write == self._retry_letter
                self._could_not_write(position, error, busy, by_timeout=by_timeout)
            elif not busy.letters and busy.wanted_by_timeout is not None:
                self._owner.acks.redeliver([position], is_timeout=busy.wanted_by_timeout)

    async def _write(self, messages: list[Message], write: Callable[[Message], Awaitable[None]]) -> None:
        """Write a letter for each message, and ack the messages whose letters are stored. Raises the first error."""

        async def one(message: Message) -> None:
            await write(message)
            await self._owner.acks.acknowledge(message)

        outcomes = await asyncio.gather(*(one(message) for message in messages), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        self._failures = 0

    def _could_not_write(
        self, position: Position, error: Exception, busy: _Busy, *, by_timeout: bool
    ) -> None:
        """Schedule another attempt: at once after the first failure, later with increasing pauses."""
        if self._is_closed:
            return
        delay_ms = _AFTER_FAILURE.delay_ms(self._failures - 1) if self._failures else 0
        self._failures += 1
        known = isinstance(error, VelaError)
        is_due = not busy.is_over or busy.wanted_by_timeout is not None
        logger.warning(
            "subscription %s: cannot store a letter of message %s:%s, %s: %s",
            self._box.subscription,
            *position,
            "will try again" if is_due else "which was acked meanwhile or is delivered again",
            error,
            exc_info=None if known else error,
        )
        if not is_due:
            return
        by_timeout = by_timeout and busy.wanted_by_timeout is not False
        busy.wanted_by_timeout = None
        self._failed[position] = by_timeout and self._failed.get(position, True)
        self._timers.call_later(delay_ms, lambda: self._try_again(position))

    def _try_again(self, position: Position) -> None:
        """Request the entry again. While other messages of it are queued, only write its failed letters again.

        That is not possible if `reconsume_later` failed: its delay and properties are not kept.
        """
        is_timeout = self._failed.pop(position, None)
        if is_timeout is None:
            return
        if not any(self._owner.waiting([position])):
            self._kept.pop(position, None)
        self._owner.acks.redeliver([position], is_timeout=is_timeout)

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
            version=message.schema_version(),
            consumer_name=self._consumer_name,
        )

    async def _retry_letter(
        self, message: Message, delay_ms: int = 0, custom: Mapping[str, str] = _NO_PROPERTIES
    ) -> None:
        """Send a message to the retry-letter topic, or make it a dead letter if it was retried too often."""
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
            version=message.schema_version(),
            consumer_name=self._consumer_name,
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self, within_s: float) -> None:
        """Finish letters that are under way, within `within_s` and at most five seconds. Safe to repeat.

        The broker delivers the other messages again.
        """
        if self._is_closed:
            return
        self._is_closed = True
        deadline = Deadline(within_s)
        self.forget()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=min(_FINISH_S, deadline.left_s))
            for task in late:
                task.cancel()
        await self._box.close(deadline.left_s)


def _milliseconds(delay: timedelta | int) -> int:
    delay_ms = int(delay / timedelta(milliseconds=1)) if isinstance(delay, timedelta) else delay
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int) or delay_ms < 0:
        raise InvalidConfiguration(
            f"delay must be a timedelta or whole milliseconds, 0 or more, not {delay!r}"
        )
    return delay_ms


def _bit(message: Message) -> int:
    return 1 << max(message.body.batch_index, 0)


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
