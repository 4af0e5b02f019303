"""The acks of a consumer, and its requests for redelivery.

Everything runs on the client's event loop, and only `close` waits.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from vela.aio.acks.sender import DONE, AckSender, acked_id
from vela.core.acks.negative_acks import NegativeAcks
from vela.core.acks.unacked import unacked_tracker
from vela.errors import InvalidConfiguration
from vela.message import Message, MessageId
from vela.wire.binary import commands

if TYPE_CHECKING:
    from vela.aio.acks.ports import AckOwner, RedeliveryFilter
    from vela.aio.timers import Timer, Timers
    from vela.core.acks.batch_acks import Position
    from vela.core.acks.options import AckOptions
    from vela.message import ReceivedEntry

__all__ = ["REDELIVERY_CHUNK", "AckSide"]

REDELIVERY_CHUNK: Final = 1000  # limit for the ids in one redelivery request


logger = logging.getLogger(__name__)


class AckSide(AckSender):
    """The acks and negative acks of one consumer of one topic, and its ack timeout.

    The consumer calls `delivered` for every readable entry except chunks, before the application can get its messages.
    With an ack timeout, it calls `taken` for every message that the application takes. It calls `attached` when it is
    subscribed on a new connection, before it sends permits.
    """

    def __init__(self, owner: AckOwner, options: AckOptions, timers: Timers) -> None:
        """Raises InvalidConfiguration if options are wrong."""
        super().__init__(owner, options, timers)
        self.letters: RedeliveryFilter | None = None
        """Decides which entries become dead or retry letters instead of being delivered again; None = no entry does."""
        try:
            self._unacked = unacked_tracker(
                options.ack_timeout_ms,
                tick_ms=options.ack_timeout_tick_ms,
                backoff=options.ack_timeout_backoff,
            )
            self._nacks = NegativeAcks(
                delay_ms=options.negative_ack_delay_ms,
                backoff=options.negative_ack_backoff,
                timer=options.negative_ack_timer,
            )
        except ValueError as error:
            raise InvalidConfiguration(str(error)) from None
        self._earlier_chunks: dict[Position, list[Position]] = {}
        """Last chunk → earlier chunks of a message with a timer or a letter, because these know only the last chunk."""
        self._nack_timer: Timer | None = None
        self._nack_due_ms = 0  # when `_nack_timer` runs
        self._unacked_timer: Timer | None = None
        self._warns_of_timeouts = True

    # -- redelivery ------------------------------------------------------------------------------------------------

    def taken(self, message: Message) -> None:
        """Start the ack timeout of a message that the application got."""
        unacked = self._unacked
        if unacked is not None:
            if unacked.next_tick_ms is None:
                unacked.start(self._timers.now_ms())
                self._arm_unacked()
            entry = message.entry
            if entry.chunks:
                self.remember_chunks(entry)
            unacked.add((entry.ledger_id, entry.entry_id), entry.redelivery_count)

    def negative_acknowledge(self, message: Message | MessageId) -> Awaitable[None]:
        """Have the entry of a message delivered again after the delay. Ends the entry's ack timeout.

        Nothing is sent now, and awaiting the result returns at once. A non-persistent topic delivers nothing again.
        Safe to repeat. Raises AlreadyClosed, and OperationNotSupported for an id that no message has.
        """
        self.deliver_later(message)
        self._warns_of_timeouts = False  # the application already does what the warning advises
        return DONE

    def deliver_later(self, message: Message | MessageId) -> None:
        """Do the same as `negative_acknowledge`, but not on behalf of the application."""
        self._require_open()
        found = acked_id(message)
        entry = message.entry if isinstance(message, Message) else found.received()
        position = (found.ledger_id(), found.entry_id())
        if entry is not None and entry.chunks:
            self.remember_chunks(entry)
        if self._unacked is not None:
            self._unacked.remove(position)
        self._nacks.add(position, self._timers.now_ms(), 0 if entry is None else entry.redelivery_count)
        self._arm_nacks()

    def remember_chunks(self, entry: ReceivedEntry) -> None:
        """Remember the chunks of a message, so that `redeliver` requests them all when it gets the last chunk."""
        earlier = [(chunk.ledger_id(), chunk.entry_id()) for chunk in entry.chunks[:-1]]
        self._earlier_chunks[entry.ledger_id, entry.entry_id] = earlier

    def _with_earlier_chunks(self, positions: Sequence[Position]) -> list[Position]:
        return [
            each for position in positions for each in (*self._earlier_chunks.pop(position, ()), position)
        ]

    def redeliver(self, positions: Sequence[Position], *, is_timeout: bool = False) -> None:
        """Request these entries again now; on Exclusive and Failover, all unacked messages.

        Entries that become dead or retry letters are not requested. If none is left, nothing is sent.
        """
        for position in positions:  # end their timers; taking the message again starts a new timeout
            if self._unacked is not None:
                self._unacked.remove(position)
            self._nacks.remove(position)
        if self.letters is not None:
            positions = self.letters.still_due(positions, is_timeout=is_timeout)
        if not positions:
            return
        if not self._options.is_shared:
            self.redeliver_all()
            return
        self.flush()  # so that the broker does not send acked messages again
        link = self._owner.connection()
        if link is None:
            return  # the broker delivers them again on the next connection
        if self._earlier_chunks:
            positions = self._with_earlier_chunks(positions)
        self._acks.asked_again(positions)
        self._owner.redelivered_locally(positions)
        for start in range(0, len(positions), REDELIVERY_CHUNK):
            link.write(
                commands.redeliver(self._owner.consumer_id, positions[start : start + REDELIVERY_CHUNK])
            )

    def redeliver_all(self) -> None:
        """Request all unacked messages again, including the negatively acked ones."""
        self.flush()
        if self._options.is_shared:
            self._acks.asked_again(None)
        self._forget_deliveries()
        self._owner.redeliver_everything()

    def _forget_deliveries(self) -> None:
        if self._unacked is not None:
            self._unacked.clear()
        self._nacks.clear()
        self._earlier_chunks.clear()
        if self.letters is not None:
            self.letters.forget()

    def _arm_nacks(self) -> None:
        due_ms = self._nacks.next_due_ms()
        if self._nack_timer is not None:
            if due_ms == self._nack_due_ms:
                return
            self._nack_timer.cancel()
            self._nack_timer = None
        if due_ms is not None:
            self._nack_due_ms = due_ms
            delay_ms = max(1, due_ms - self._timers.now_ms())
            self._nack_timer = self._timers.call_later(delay_ms, self._nacks_are_due)

    def _nacks_are_due(self) -> None:
        self._nack_timer = None
        due = self._nacks.pop_due(self._timers.now_ms())
        self._arm_nacks()
        self.redeliver(due)

    def _arm_unacked(self) -> None:
        assert self._unacked is not None
        due_ms = self._unacked.next_tick_ms
        if due_ms is not None:
            delay_ms = max(1, due_ms - self._timers.now_ms())
            self._unacked_timer = self._timers.call_later(delay_ms, self._tick)

    def _tick(self) -> None:
        assert self._unacked is not None
        expired = self._unacked.pop_expired(self._timers.now_ms())
        self._arm_unacked()
        if expired and self._warns_of_timeouts and self.letters is None:
            self._warns_of_timeouts = False
            _warn_of_timeouts(len(expired), self._options.ack_timeout_ms)
        self.redeliver(expired, is_timeout=True)

    # -- deliveries and links --------------------------------------------------------------------------------------

    def delivered(self, ledger_id: int, entry_id: int, batch_size: int, ack_set: int | None) -> int:
        """Record an arrived entry. Return the bits of its messages that are already acked and must not be shown.

        `batch_size` 0 = not a batch. The result ALL_ACKED (-1) means the whole entry. Messages that the broker reported
        as acked (`ack_set`) are not among the bits.
        """
        acks = self._acks
        if batch_size:
            acks.delivered(ledger_id, entry_id, batch_size, ack_set)
        return acks.acked_messages(ledger_id, entry_id)

    def is_duplicate(self, ledger_id: int, entry_id: int, batch_index: int = -1) -> bool:
        """Return whether an arriving message was acked here, and the ack was not sent yet."""
        return bool(self._acks.acked_messages(ledger_id, entry_id) >> max(batch_index, 0) & 1)

    def unacked_messages(self, ledger_id: int, entry_id: int, batch_size: int) -> int:
        """Return the bits of an entry's unacked messages."""
        return self._acks.unacked_messages(ledger_id, entry_id, batch_size)

    def attached(self) -> None:
        """Start with a new connection, over which the broker delivers all unacked messages again.

        Call it before sending permits, so that the broker gets the acks collected in the meantime before it delivers
        anything.
        """
        self._acks.attached()
        self._forget_deliveries()
        self.flush()

    def sought(self) -> None:
        """Forget messages and acks from before a seek, which has moved the subscription."""
        self._acks.clear()
        self._forget_deliveries()
        self.flush()

    async def close(self, within_s: float) -> None:
        """Drop the negative acks and ack timeouts, then do the same as `AckSender.close`."""
        self._forget_deliveries()
        for timer in (self._nack_timer, self._unacked_timer):
            if timer is not None:
                timer.cancel()
        self._nack_timer = self._unacked_timer = None
        await super().close(within_s)

    def _settled(self, position: Position) -> None:
        """Stop the timers of an entry whose messages are all acked."""
        if self._unacked is not None:
            self._unacked.remove(position)
        # without a timer there are no negative acks, and this check is cheaper
        if self._nack_timer is not None:
            self._nacks.remove(position)
        if self._earlier_chunks:
            self._earlier_chunks.pop(position, None)
        if self.letters is not None:
            self.letters.settled(position)

    def _settled_through(self, position: Position) -> None:
        if self._unacked is not None:
            self._unacked.remove_through(position)
        if self._nack_timer is not None:
            self._nacks.remove_through(position)
        for known in [known for known in self._earlier_chunks if known <= position]:
            del self._earlier_chunks[known]
        if self.letters is not None:
            self.letters.settled_through(position)


def _warn_of_timeouts(count: int, timeout_ms: int) -> None:
    """Warn that messages are delivered again because their ack timeout has passed."""
    logger.warning(
        "not acknowledged within %d ms and therefore delivered again: %d entries, and more may follow. If processing"
        " failed, call negative_acknowledge at once instead of leaving messages to the timeout, or use retry_enable; if"
        " it takes longer than that, raise unacked_messages_timeout_ms",
        timeout_ms,
        count,
    )
