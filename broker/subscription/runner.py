"""Pass events to the state machine of one subscription, and carry out the effects that the machine returns.

This file is long because each event and each effect needs a few lines.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from broker.core.errors import BrokerError, PersistenceFailed
from broker.core.subscription.story_rows import StoryEvent
from broker.subscription.acks_without_counts import AcksWithoutCounts
from broker.subscription.machine.effects import (
    ACKED,
    AskConsumer,
    Batch,
    Effects,
    KeepBack,
    LoadCounts,
    ReadAhead,
    ReadChosen,
    ReadCompacted,
    Say,
    SendLater,
    Settle,
    SettleWhenDurable,
    TellActive,
    TellEnd,
    Watch,
    Wish,
)
from broker.subscription.machine.state import Member
from broker.subscription.reads import Reads
from broker.subscription.traced_deliveries import TracedDeliveries

if TYPE_CHECKING:
    from broker.core.cursor.state import CursorFlush
    from broker.core.entry import StoredEntry
    from broker.core.position import Position
    from broker.log.compaction.view import CompactedView
    from broker.log.delayed import DelayedMessages
    from broker.log.reader import TopicReader
    from broker.log.topic_log import TopicLog
    from broker.subscription.collaborators import Surroundings
    from broker.subscription.consumer import Consumer
    from broker.subscription.machine.acks import AckCommand
    from broker.subscription.machine.machine import SubscriptionMachine
    from broker.subscription.machine.rates import DispatchLimit
    from broker.subscription.requests import AckRequest, DurableCallback
    from broker.subscription.storing.flusher import Flusher

__all__ = ["SubscriptionRunner"]

logger = logging.getLogger(__name__)

# After this many entries or bytes, dispatch pauses so that other work on the event loop can run.
TURN_ENTRIES: Final = 1000
TURN_BYTES: Final = 4 * 1024 * 1024


class SubscriptionRunner:
    """The runner of one subscription. Call its methods only from the event loop.

    The argument `subscription_id` is None for a reader's cursor.
    """

    def __init__(
        self,
        machine: SubscriptionMachine,
        *,
        subscription_id: int | None,
        log: TopicLog,
        reader: TopicReader,
        compacted: CompactedView,
        delayed: DelayedMessages,
        flusher: Flusher,
        around: Surroundings,
        report: Callable[[], None],
        forget: Callable[[], None],
    ) -> None:
        self.log = log
        self.reader = reader
        self.name = machine.state.name
        self._id = subscription_id
        self.consumers: dict[int, Consumer] = {}
        self._machine = machine
        self._state = machine.state
        self._compacted = compacted
        self._delayed = delayed
        self._flusher = flusher
        self._around = around
        self._clock = around.clock
        self._report = report
        self._forget = forget
        self._is_pumping = False
        self._turn_scheduled = False
        self._reads = Reads(
            f"{log.name}, subscription {self.name}",
            log_fields=self._log_fields,
            ended=self._entries_read,
            gap_found=self._gap_found,
            fault_changed=report,
        )
        self._late_acks = AcksWithoutCounts(
            machine.acks, reader, carry_out=self.carry_out, failed=self._late_ack_failed
        )
        tracing = around.tracing
        self._traced = (
            None
            if tracing is None
            else TracedDeliveries(tracing, log.name.full, self.name, is_durable=machine.state.is_durable)
        )
        self._rate_timer: asyncio.TimerHandle | None = None
        self._unstored_since_s = 0.0  # Monotonic time of the first ack that waits for a flush, or 0
        self._flushing_since_s = 0.0  # Monotonic time of the first ack in the current flush, or 0

    def carry_out(self, effects: Effects) -> None:
        """Carry out the machine's effects in order."""
        by_type, by_wish = self._METHOD_OF_TYPE, self._METHOD_OF_WISH
        for effect in effects:
            method = by_type.get(effect.__class__)
            if method is None:
                by_wish[effect](self)  # type: ignore[index]
            else:
                method(self, effect)

    def _soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    # -- dispatch ------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Deliver entries that may be sent, up to the limits of one turn. Safe to call at any time."""
        if (
            self._is_pumping
            or self._reads.task is not None
            or not self._state.may_send
            or not self.log.is_open
            or not self._around.may_send()
        ):
            return
        self._is_pumping = True
        try:
            self._deliver_turn()
        except Exception:
            # Some entries may be assigned to a consumer but not sent. Close the consumers, so that the broker delivers
            # these entries again.
            logger.exception(
                "%s, subscription %s: dispatch failed; its consumers are closed, and their clients subscribe again",
                self.log.name,
                self.name,
                extra=self._log_fields(),
            )
            self.close_consumers("dispatch failed inside the broker; the broker's log says why")
        finally:
            self._is_pumping = False

    def _deliver_turn(self) -> None:
        next_batch = self._machine.sending.next_batch
        entries = size_bytes = 0
        now_ms = self._clock.now_ms()
        while (batch := next_batch(now_ms)) is not None:
            if batch.effects:
                self.carry_out(batch.effects)
            if batch.deliveries:
                self._write(batch, now_ms)
            elif batch.entries:
                self._report()
            if not batch.goes_on:
                break
            entries += batch.entries
            size_bytes += batch.size_bytes
            if entries >= TURN_ENTRIES or size_bytes >= TURN_BYTES:
                if not self._turn_scheduled:
                    self._turn_scheduled = True
                    self._soon(self._next_turn)
                break

    def _write(self, batch: Batch, now_ms: int) -> None:
        interception, limit, traced = self._around.interception, self._state.limit, self._traced
        for key, deliveries in batch.deliveries:
            consumer = self.consumers.get(key)
            if consumer is None:
                continue  # The consumer left during this loop; its entries are delivered again
            if interception is not None:
                interception.sending(self.log.name.full, self.name, consumer.name, deliveries)
            if limit is not None:
                limit.sent(deliveries, now_ms)
            out, redelivered = consumer.messages_out, consumer.messages_redelivered
            consumer.deliver(deliveries, now_ms)
            self._machine.wrote(consumer.messages_out - out, consumer.messages_redelivered - redelivered)
            if traced is not None and consumer.is_open:
                traced.delivered(consumer.name, deliveries)
        if batch.oldest_append_ms:
            age_s = max(0, now_ms - batch.oldest_append_ms) / 1000
            self._around.instruments.dispatch_latency.observe(age_s)
        self._report()

    def use_limit(self, limit: DispatchLimit | None) -> None:
        """Apply new dispatch rates; None means no limit."""
        if self._rate_timer is not None:
            self._rate_timer.cancel()
            self._rate_timer = None
        self.carry_out(self._machine.limit_rate(limit))

    def _next_turn(self) -> None:
        self._turn_scheduled = False
        self.pump()

    def _send_later(self, effect: SendLater) -> None:
        if self._rate_timer is None:
            loop = asyncio.get_running_loop()
            self._rate_timer = loop.call_later(effect.wait_ms / 1000, self._rate_allows)

    def _rate_allows(self) -> None:
        self._rate_timer = None
        self.pump()

    # -- reads ---------------------------------------------------------------------------------------------------

    def _entries_read(self, entries: Sequence[StoredEntry]) -> None:
        sending = self._machine.sending
        sending.entries_read(entries)
        try:
            self.pump()
        finally:
            sending.forget_read()

    def _read_ahead(self, effect: ReadAhead) -> None:
        self._reads.start(partial(self.reader.read_ahead, effect.position))

    def _read_chosen(self, effect: ReadChosen) -> None:
        self._reads.start(partial(self.reader.read_chosen, effect.positions))

    def _read_compacted(self, effect: ReadCompacted) -> None:
        async def read() -> list[StoredEntry]:
            self._machine.sending.compacted_read(await self._compacted.read(effect.first))
            return []

        self._reads.start(read)

    def _load_counts(self, effect: LoadCounts) -> None:
        async def load() -> list[StoredEntry]:
            await self.reader.load_index(effect.ranges)
            return []

        self._reads.start(load)

    def _gap_found(self, what: str) -> None:
        self._machine.gap_found(what)
        self._report()

    def stop_reading(self) -> None:
        """Stop the current read."""
        self._reads.stop()

    @property
    def is_reading(self) -> bool:
        """Whether a read is under way."""
        return self._reads.task is not None and not self._reads.task.done()

    @property
    def read_fault(self) -> str:
        """The reason why the last read failed, or an empty string."""
        return self._reads.fault

    # -- requests of consumers -----------------------------------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add permits that a client grants. Raises InvalidFlow if `permits` is below 1."""
        # The machine returns only `Wish.SEND`, which `pump` below carries out.
        self._machine.flow(consumer, permits, self._clock.now_ms())
        self._report()
        self.pump()

    def ack(
        self,
        consumer: Member,
        acks: Sequence[AckRequest],
        *,
        cumulative: bool,
        on_durable: DurableCallback | None,
        validation_error: str | None,
        returns_permits: bool = False,
    ) -> None:
        """Apply the acks of one command in memory. The flusher stores the cursor later.

        If `returns_permits` is true, the client discarded the entries and granted only one permit for each entry. The
        broker then grants the permits for the other messages of each batch.
        """
        if validation_error is not None:
            self.carry_out(self._machine.acks.thrown_away(consumer, validation_error))
        try:
            effects = self._machine.acks.ack(
                consumer, acks, cumulative, on_durable, returns_permits, self._clock.now_ms()
            )
        except Exception as error:
            self._ack_failed(consumer.key, on_durable, error)
            return
        if self._traced is not None:
            self._traced.acked(consumer.name, acks, self._state.cursor.is_acked, cumulative=cumulative)
        if effects is ACKED:
            self._acks_wait()
            self._report()
            self.pump()
        else:
            self.carry_out(effects)

    def redeliver(
        self,
        consumer: Consumer,
        positions: Sequence[Position] | None,
        reason: StoryEvent = StoryEvent.ASKED_AGAIN,
    ) -> None:
        """Redeliver these entries. If `positions` is None, redeliver all pending entries of the consumer."""
        now_ms = self._clock.now_ms()
        self.carry_out(self._machine.redelivery.redeliver(consumer, positions, reason, now_ms))

    def redeliver_at(self, consumer: Consumer, positions: Iterable[Position], due_ms: int) -> None:
        """Redeliver these entries at `due_ms`, unless they are acked earlier."""
        now_ms = self._clock.now_ms()
        self.carry_out(self._machine.redelivery.redeliver_at(consumer, positions, due_ms, now_ms))

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer, and let other consumers get its pending entries."""
        if self.consumers.pop(consumer.key, None) is not None:
            self.carry_out(self._machine.gone(consumer, self._clock.now_ms()))

    def close_consumers(self, reason: str, *, standby: bool = True) -> int:
        """Close every consumer, and return how many were closed.

        If `standby` is False, inactive Failover consumers stay connected, because they have no pending entries.
        """
        keys = list(self.consumers) if standby else self._machine.served()
        consumers = [self.consumers[key] for key in keys]
        for consumer in consumers:
            consumer.closed_by_broker(reason)
            self.remove_consumer(consumer)
        return len(consumers)

    def _tell_active(self, effect: TellActive) -> None:
        consumer = self.consumers.get(effect.key)
        if consumer is None:
            return
        if effect.waits:
            self._soon(partial(self._tell_active, TellActive(effect.key, waits=False)))
        else:
            consumer.tell_active(consumer.dispatch is self._state.dispatcher.active)

    def _tell_end(self, effect: TellEnd) -> None:
        for key in effect.keys:
            consumer = self.consumers.get(key)
            if consumer is not None:
                consumer.reached_end()

    # -- time ----------------------------------------------------------------------------------------------------

    def run_due(self, now_ms: int) -> int:
        """Do the work that is due, and return the number of affected entries. Safe to repeat."""
        entries, effects = self._machine.redelivery.time_passed(now_ms)
        self.carry_out(effects)
        return entries

    def next_due_ms(self) -> int | None:
        """Return when `run_due` must be called next, or None if no call is needed."""
        return self._machine.redelivery.next_due_ms()

    def replay(self, positions: Iterable[Position]) -> None:
        """Send these delayed entries."""
        self.carry_out(self._machine.redelivery.replay(positions))

    def _switch_soon(self) -> None:
        self._soon(self._switch)

    def _switch(self) -> None:
        self.carry_out(self._machine.redelivery.switch(self._clock.now_ms()))

    def _ask_consumer(self, effect: AskConsumer) -> None:
        consumer = self.consumers.get(effect.key)
        if consumer is None:
            return
        positions = consumer.still_due(effect.due)
        nacked = {each.position for each in effect.due if each.is_nack}
        if positions and self._state.type.single_active:
            # Redelivering single messages would break the order, so all unacked messages are delivered again.
            self.redeliver(consumer, None, _reason(not nacked.isdisjoint(positions)))
            return
        for is_nack in (True, False):
            due = [each for each in positions if (each in nacked) is is_nack]
            self.redeliver(consumer, due, _reason(is_nack))

    def _watch(self, effect: Watch) -> None:
        self._around.deadlines.watch(self, effect.due_ms)

    def _keep_back(self, effect: KeepBack) -> None:
        for entry in effect.entries:
            self._delayed.keep_back(entry)

    # -- methods of `FlushedCursor` ------------------------------------------------------------------------------

    @property
    def subscription_id(self) -> int:
        """The id of the subscription's row. Raises ValueError for a reader's cursor."""
        if self._id is None:
            raise ValueError(f"{self.name} is not durable: it has no row")
        return self._id

    @property
    def is_durable(self) -> bool:
        """Whether the cursor is stored in PostgreSQL."""
        return self._state.is_durable

    @property
    def is_deleted(self) -> bool:
        """Whether the subscription's rows are deleted."""
        return self._state.is_deleted

    @property
    def undo_act_id(self) -> int:
        """The id of the last act with an undo window, or 0 if there was none."""
        return self._state.undo_act_id

    def mark_dirty(self) -> None:
        """Schedule a flush of the cursor."""
        self._flusher.mark(self)

    def _acks_wait(self) -> None:
        if not self._unstored_since_s:
            self._unstored_since_s = time.monotonic()
        self._flusher.mark(self)

    def _settle_when_durable(self, effect: SettleWhenDurable) -> None:
        if not self._unstored_since_s:
            self._unstored_since_s = time.monotonic()
        self._flusher.when_durable(self, effect.receipt)

    def take_dirty(self) -> CursorFlush | None:
        """Return the changes to store, or None."""
        self._flushing_since_s, self._unstored_since_s = self._unstored_since_s, 0.0
        if self._traced is not None:
            self._traced.flushing()
        return None if self._state.is_deleted else self._state.cursor.take_dirty()

    def put_back(self, flush: CursorFlush) -> None:
        """Keep the changes of a failed flush for a later flush."""
        self._state.cursor.put_back(flush)
        self._unstored_since_s = self._flushing_since_s or self._unstored_since_s
        if self._traced is not None:
            self._traced.put_back()

    def stored(self, flush: CursorFlush) -> None:
        """Record that the changes of a flush are stored."""
        self._machine.stored(flush.mark_delete)
        if self._flushing_since_s:
            self._around.instruments.ack_latency.observe(time.monotonic() - self._flushing_since_s)
        if self._traced is not None:
            self._traced.stored()

    def refusal_changed(self) -> None:
        """Report that the cursor can no longer be stored, or that it can be stored again."""
        self._report()

    def _changed(self) -> None:
        self._report()

    def _forget_it(self) -> None:
        self._forget()

    # -- waiting and failed acks ---------------------------------------------------------------------------------

    async def acks_settled(self) -> None:
        """Wait until every received ack is applied or refused. Safe to cancel.

        Without this wait, a new consumer could get messages that are already acked.
        """
        await self._late_acks.settled()

    def _start_late_acks(self) -> None:
        self._around.tasks.keep(self._late_acks.start(f"late acks of {self.name}"))

    def _late_ack_failed(self, command: AckCommand, error: Exception) -> None:
        self._ack_failed(command.member.key, command.receipt, error)

    def apply_put_off_acks(self) -> None:
        """Apply the acks that waited for the end of a cursor move."""
        for command in self._machine.acks.take_put_off():
            self.ack(
                command.member,
                command.acks,
                cumulative=command.cumulative,
                on_durable=command.receipt,
                validation_error=None,
                returns_permits=command.returns_permits,
            )

    def _ack_failed(self, key: int, receipt: DurableCallback | None, error: Exception) -> None:
        consumer = self.consumers.get(key)
        who = "a consumer that has left" if consumer is None else consumer.name
        fields = self._log_fields() | ({} if consumer is None else {"consumer": who})
        logger.error(
            "acks by %s on %s failed; the messages are delivered again",
            who,
            self.name,
            exc_info=error,
            extra=fields,
        )
        if self._state.is_durable:
            self._flusher.mark(self)  # Some acks of the command may have been applied
        if receipt is not None:
            if not isinstance(error, BrokerError):
                text = f"the ack failed inside the broker ({error!r}); the broker's log says more"
                error = PersistenceFailed(text)
            self._settle(Settle(receipt, error))
        # A client that asked for no receipt notices the failure when its consumer is closed.
        if consumer is not None:
            consumer.closed_by_broker("an ack failed inside the broker; the broker's log says why")
            self.remove_consumer(consumer)

    def _settle(self, effect: Settle) -> None:
        try:
            effect.receipt(effect.error)
        except Exception:  # A fault in one connection must not affect other clients
            logger.exception("answering an ack failed; its client gets no receipt")

    def _say(self, effect: Say) -> None:
        logger.log(
            effect.level,
            "%s, subscription %s: %s",
            self.log.name,
            self.name,
            effect.text % effect.values,
            exc_info=effect.error,
            extra=self._log_fields(),
        )

    def _log_fields(self) -> dict[str, str]:
        return {"topic": str(self.log.name), "subscription": self.name}

    _METHOD_OF_TYPE: ClassVar[dict[type, Callable[[SubscriptionRunner, Any], None]]] = {
        ReadAhead: _read_ahead,
        ReadChosen: _read_chosen,
        ReadCompacted: _read_compacted,
        LoadCounts: _load_counts,
        SendLater: _send_later,
        Settle: _settle,
        SettleWhenDurable: _settle_when_durable,
        TellActive: _tell_active,
        TellEnd: _tell_end,
        AskConsumer: _ask_consumer,
        Watch: _watch,
        KeepBack: _keep_back,
        Say: _say,
    }
    _METHOD_OF_WISH: ClassVar[dict[Wish, Callable[[SubscriptionRunner], None]]] = {
        Wish.SEND: pump,
        Wish.DIRTY: _acks_wait,
        Wish.CHANGED: _changed,
        Wish.APPLY_LATE_ACKS: _start_late_acks,
        Wish.SWITCH_SOON: _switch_soon,
        Wish.FORGET: _forget_it,
    }


def _reason(is_nack: bool) -> StoryEvent:
    return StoryEvent.NEGATIVELY_ACKED if is_nack else StoryEvent.TIMED_OUT
