"""Acks as they come from clients: to the cursor and the dispatcher at once, to PostgreSQL behind (design 6)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.core.errors import BrokerError, InvalidAck, PersistenceFailed, ServiceNotReady
from broker.core.ledgers.message_index import IndexMissing
from broker.subscription.end_of_topic import tell_end_of_topic

if TYPE_CHECKING:
    from broker.subscription.consumer import Consumer
    from broker.subscription.requests import AckRequest, DurableCallback
    from broker.subscription.subscription import Subscription

__all__ = ["AckIntake"]

log = logging.getLogger(__name__)


class _Command(NamedTuple):
    """What one ack command asks for. A named tuple: one is made for every ack."""

    consumer: Consumer
    acks: Sequence[AckRequest]
    cumulative: bool
    on_durable: DurableCallback | None
    returns_permits: bool
    cursor_version: int  # when it came


class AckIntake:
    """Of one subscription; counts what is wrong with acks there."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._batch_index_acks = subscription.topic.services.settings.batch_index_acks
        self._late: deque[_Command] = deque()  # the first waits for counts, the others for it
        self._settled = asyncio.Event()
        self._settled.set()

    def ack(
        self,
        consumer: Consumer,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None,
        validation_error: str | None,
        returns_permits: bool = False,
    ) -> None:
        """Acks of one command. Memory changes at once; the cursor is flushed behind.

        `returns_permits`: the client threw these entries away and gave back one permit each (S0.19).
        """
        subscription = self._subscription
        if validation_error is not None:
            count = subscription.validation_errors[validation_error] = (
                subscription.validation_errors.get(validation_error, 0) + 1
            )
            if _is_worth_a_line(count):
                log.warning(
                    "%s on %s discarded a message: %s (%s so far)",
                    consumer.name,
                    subscription.topic.name,
                    validation_error,
                    count,
                )
        if subscription.moves.is_moving:
            if not subscription.moves.ignores_acks:
                subscription.moves.defer(
                    lambda: self.ack(
                        consumer,
                        acks,
                        cumulative=cumulative,
                        on_durable=on_durable,
                        validation_error=None,
                        returns_permits=returns_permits,
                    )
                )
            elif on_durable is not None:
                on_durable(ServiceNotReady("the cursor is being moved; what you hold is delivered again"))
            return
        consumer.last_ack_ms = subscription.topic.services.clock.now_ms()
        if cumulative and (not subscription.type.single_active or len(acks) != 1):
            # Semantics S4.5, protocol 3.9: ignored with a warning; a receipt is answered with success.
            subscription.ignored_acks += 1
            if _is_worth_a_line(subscription.ignored_acks):
                log.warning(
                    "cumulative ack by %s on %s ignored (%s so far)",
                    consumer.name,
                    subscription.name,
                    subscription.ignored_acks,
                )
            if on_durable is not None:
                on_durable(None)
            return
        command = _Command(
            consumer, acks, cumulative, on_durable, returns_permits, subscription.cursor.version
        )
        if self._late or self._missing_after(command) is not None:
            self._late.append(command)
            if len(self._late) == 1:
                self._settled.clear()
                late = asyncio.create_task(self._apply_late(), name=f"late acks of {subscription.name}")
                subscription.topic.services.keep(late)

    async def settled(self) -> None:
        """Wait until every ack that has come is applied: whoever attaches next must not get what they name."""
        await self._settled.wait()

    def _missing_after(self, command: _Command) -> IndexMissing | None:
        """Apply a command; settle it when that fails."""
        try:
            return self._apply(command)
        except Exception as error:
            self._failed(command, error)
            return None

    def _failed(self, command: _Command, error: Exception) -> None:
        """Give a command up: its receipt says so, and what its consumer holds is delivered again.

        Closing the consumer is what makes its client ask again: without a receipt it takes the message for acked.
        """
        subscription, consumer = self._subscription, command.consumer
        log.error("acks by %s on %s failed", consumer.name, subscription.name, exc_info=error)
        if subscription.is_durable:
            subscription.topic.services.flusher.mark(subscription)  # some of its acks may have been applied
        _answer(
            command, PersistenceFailed(f"the ack failed inside the broker ({error!r}); its log says more")
        )
        if consumer.is_open:
            consumer.closed_by_broker("an ack failed inside the broker; its log says why")
            subscription.remove_consumer(consumer)

    def _apply(self, command: _Command) -> IndexMissing | None:
        """Do it; what is missing when the counts of some entry are not in memory. Then repeating it does no harm."""
        consumer, acks, cumulative, on_durable, returns_permits, _ = command
        subscription = self._subscription
        cursor, dispatcher = subscription.cursor, subscription.dispatcher
        wrong: InvalidAck | None = None
        for position, remaining in acks:
            if remaining and not self._batch_index_acks and subscription.topic.log.ledgers.contains(position):
                # S4.7: of a batch all or nothing is acked; a cumulative ack reaches the entry before it.
                if not cumulative:
                    continue
                position, remaining = subscription.topic.log.ledgers.previous_of(position), None
            try:
                result = (
                    cursor.ack_through(position, remaining) if cumulative else cursor.ack(position, remaining)
                )
            except InvalidAck as error:
                wrong = error
                subscription.invalid_acks += 1
                if _is_worth_a_line(subscription.invalid_acks):
                    log.warning(
                        "%s on %s: %s (%s so far)",
                        consumer.name,
                        subscription.topic.name,
                        error,
                        subscription.invalid_acks,
                    )
                continue
            except IndexMissing as missing:
                return missing
            if result.messages:
                consumer.messages_acked += result.messages
                subscription.messages_acked += result.messages
            if returns_permits and result.messages > 1 and dispatcher.holds(consumer.dispatch, position):
                consumer.dispatch.flow(result.messages - 1)
            dispatcher.acked(position, result.messages, result.completed, consumer.dispatch)
            if result.completed and len(subscription.deadlines):
                subscription.deadlines.cancel(position)
        if subscription.is_durable:
            subscription.ack_waits()
            if on_durable is not None and wrong is None:
                subscription.topic.services.flusher.when_durable(subscription, on_durable)
            else:
                subscription.topic.services.flusher.mark(subscription)
        if on_durable is not None and (wrong is not None or not subscription.is_durable):
            on_durable(wrong)
        subscription.topic.services.reporter.changed(subscription)
        subscription.pump()
        if subscription.topic.is_terminated:
            tell_end_of_topic(subscription)
        return None

    async def _apply_late(self) -> None:
        """Acks of entries whose counts are not in memory, and all that came after them: acks keep their order."""
        try:
            while self._late:
                await self._apply_with_counts(self._late[0])
                self._late.popleft()
        finally:
            self._late.clear()  # empty, unless the broker is stopping
            self._settled.set()

    async def _apply_with_counts(self, command: _Command) -> None:
        subscription = self._subscription
        try:
            while (missing := self._apply(command)) is not None:
                await subscription.topic.reader.load_index(missing.ranges)
                if (
                    subscription.cursor.version != command.cursor_version
                    or subscription.moves.is_moving
                    or subscription.is_deleted
                ):
                    raise ServiceNotReady("the cursor was moved; what you hold is delivered again")
        except BrokerError as error:
            if subscription.is_durable:
                subscription.topic.services.flusher.mark(
                    subscription
                )  # some of its acks may have been applied
            _answer(command, error)
        except Exception as error:  # the acks behind it are applied all the same
            self._failed(command, error)


def _answer(command: _Command, error: BrokerError) -> None:
    if command.on_durable is not None:
        try:
            command.on_durable(error)
        except Exception:  # one transport's fault is not the next one's
            log.exception("an ack's receipt")


def _is_worth_a_line(count: int) -> bool:
    """The 1st, 2nd, 4th, 8th … time: a client must not fill the log, the counters say the rest."""
    return count & (count - 1) == 0
