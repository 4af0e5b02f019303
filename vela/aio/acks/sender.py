"""Collect acks, send them to the broker in groups, and wait for receipts if they are on.

Everything runs on the client's event loop. Without receipts, acking a message is a plain call without a task or future;
the rest of the work is done once for each group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from vela.core.acks.grouping import AckGrouping, NoAckGrouping, PendingAcks
from vela.core.argument_checks import require_numbers
from vela.errors import (
    AlreadyClosed,
    CumulativeAcknowledgementNotAllowedError,
    InvalidConfiguration,
    NotConnected,
    OperationNotSupported,
)
from vela.message import Message, MessageId
from vela.wire.binary import commands

if TYPE_CHECKING:
    from vela.aio.acks.ports import AckLink, AckOwner
    from vela.aio.timers import Timer, Timers
    from vela.core.acks.batch_acks import Position
    from vela.core.acks.grouping import EntryAck
    from vela.core.acks.options import AckOptions
    from vela.wire.binary.enums import ValidationError

__all__ = ["DONE", "AckSender", "acked_id", "id_of", "no_message"]

# Limit for the ids in one command. After a time without a connection there may be many, each with an ack set.
_CHUNK: Final = 1000


_AFTER_ALL: Final = MessageId.latest.ledger_id()  # no message is in this ledger


class _Done:
    """The result of an ack without a receipt. Awaiting it returns at once."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return cast("Generator[Any, None, None]", iter(()))


DONE: Final = _Done()


class _Receipt:
    """The broker's answer for one group. Several calls may await it; cancelling one does not affect the others."""

    __slots__ = ("_answer",)

    def __init__(self, answer: asyncio.Future[None]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.shield(self._answer).__await__()


class AckSender:
    """Collects and sends the acks of one consumer of one topic."""

    def __init__(self, owner: AckOwner, options: AckOptions, timers: Timers) -> None:
        """Raises InvalidConfiguration if options are wrong."""
        self.acks_sent = 0
        """Number of acks. A cumulative ack counts as one, and each chunk of a message counts."""
        self._owner = owner
        self._options = options
        self._timers = timers
        self._receipts = options.receipts
        try:
            grouping = AckGrouping if options.is_persistent else NoAckGrouping
            self._acks = grouping(
                group_ms=options.group_ms,
                max_ids=options.group_size,
                batch_index_acks=options.batch_index_acks,
            )
        except ValueError as error:
            raise InvalidConfiguration(str(error)) from None
        self._flush_timer: Timer | None = None
        self._answer: asyncio.Future[None] | None = None  # of the collected acks, if receipts are on
        self._sending: set[asyncio.Future[None]] = set()  # receipts awaited from the broker
        self._is_closed = False

    def _settled(self, position: Position) -> None:
        """Called when all messages of an entry are acked."""

    def _settled_through(self, position: Position) -> None:
        """Called when every entry up to this one is acked."""

    # -- acks ------------------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        message: Message | MessageId | Sequence[Message | MessageId],
        properties: Mapping[str, int] | None = None,
    ) -> Awaitable[None]:
        """Ack one message, or each of a list. Returns at once; awaiting the result waits only if receipts are on.

        Acks are collected and sent together, or with `properties` at once and separately. On non-persistent topics,
        nothing is sent. Without batch index acks, only the ack of a batch's last unacked message is sent, for the whole
        batch; the others send nothing, and their properties are lost. Safe to repeat. With receipts, the result raises
        the broker's refusals, Timeout, or the error that ended the connection; the message may then be delivered again.

        An empty list acks nothing. Raises AlreadyClosed, and NotConnected for properties while the connection is lost.
        Raises OperationNotSupported for an id that no message has, such as MessageId.earliest and MessageId.latest. In
        that case no message of a list is acked.
        """
        if properties:
            return self._acknowledge_alone(message, properties)
        if type(message) is Message and not message.entry.chunks:
            entry = message.entry
            self._add(entry.ledger_id, entry.entry_id, message.body.batch_index, entry.batch_size)
        else:
            self._add_all(message)
        if self._flush_timer is not None and not self._acks.is_full and not self._receipts:
            return DONE
        return self._gathered()

    def acknowledge_cumulative(
        self, message: Message | MessageId, properties: Mapping[str, int] | None = None
    ) -> Awaitable[None]:
        """Ack every message up to and including this one. For the rest see `acknowledge`.

        Raises CumulativeAcknowledgementNotAllowedError on Shared and Key_Shared.
        """
        if self._options.is_shared:
            raise CumulativeAcknowledgementNotAllowedError(
                "a cumulative ack would ack messages of other consumers of a Shared or Key_Shared subscription:"
                " acknowledge one by one, or a list"
            )
        if properties:
            self._before_properties(properties)
        self._require_open()
        found = acked_id(message)
        try:
            covered = self._acks.add_cumulative(
                found.ledger_id(), found.entry_id(), found.batch_index(), found.batch_size()
            )
        except ValueError as error:
            raise OperationNotSupported(str(error)) from None
        if covered is not None:
            self.acks_sent += 1
            self._settled_through(covered)
        return self._send_alone(properties) if properties else self._gathered()

    def discard(self, ledger_id: int, entry_id: int, reason: ValidationError) -> None:
        """Ack a damaged entry, and tell the broker the reason.

        Does nothing on a non-persistent topic, which stores no acks. Also does nothing without a connection, because
        the broker then delivers the entry again.
        """
        link = self._owner.connection()
        if link is not None and self._options.is_persistent:
            link.write(
                commands.ack(self._owner.consumer_id, [(ledger_id, entry_id, None)], validation_error=reason)
            )

    def _add(self, ledger_id: int, entry_id: int, batch_index: int, batch_size: int) -> None:
        if self._is_closed:
            self._require_open()
        try:
            is_whole = self._acks.add(ledger_id, entry_id, batch_index, batch_size)
        except ValueError as error:
            raise OperationNotSupported(str(error)) from None
        self.acks_sent += 1
        if is_whole:
            self._settled((ledger_id, entry_id))

    def _add_all(self, message: Message | MessageId | Sequence[Message | MessageId]) -> None:
        messages = [message] if isinstance(message, Message | MessageId) else message
        if not isinstance(messages, Iterable):
            raise no_message(messages)
        for found in self.checked(messages):
            entry = found.received()
            if entry is not None and entry.chunks:
                for chunk in entry.chunks[:-1]:
                    self._add(chunk.ledger_id(), chunk.entry_id(), -1, 0)
            self._add(found.ledger_id(), found.entry_id(), found.batch_index(), found.batch_size())

    def checked(self, messages: Iterable[Message | MessageId]) -> list[MessageId]:
        """Return the ids of messages that can be acked together. Raises the errors of `acknowledge` for wrong ids."""
        found = [acked_id(each) for each in messages]
        try:
            self._acks.check(
                (each.ledger_id(), each.entry_id(), each.batch_index(), each.batch_size()) for each in found
            )
        except ValueError as error:
            raise OperationNotSupported(str(error)) from None
        return found

    def _acknowledge_alone(
        self, message: Message | MessageId | Sequence[Message | MessageId], properties: Mapping[str, int]
    ) -> Awaitable[None]:
        self._before_properties(properties)
        self._add_all(message)
        return self._send_alone(properties)

    def _before_properties(self, properties: Mapping[str, int]) -> None:
        require_numbers("properties", properties)
        if self._owner.connection() is None:
            raise NotConnected(
                "an ack with properties needs a connection, which is lost now: try again later"
            )
        self.flush()

    def _send_alone(self, properties: Mapping[str, int]) -> Awaitable[None]:
        receipt: Awaitable[None] = DONE
        if self._receipts and len(self._acks):
            self._answer = asyncio.get_running_loop().create_future()
            receipt = _Receipt(self._answer)
        self.flush(properties)
        return receipt

    def _gathered(self) -> Awaitable[None]:
        """Send a full group or start its timer. Return the result of the acks that were just added."""
        receipt: Awaitable[None] = DONE
        if self._receipts and len(self._acks):
            if self._answer is None:
                self._answer = asyncio.get_running_loop().create_future()
            receipt = _Receipt(self._answer)
        if self._acks.is_full:
            self.flush()
        elif self._flush_timer is None:
            self._flush_timer = self._timers.call_later(self._options.group_ms, self._flush_is_due)
        return receipt

    # -- sending ---------------------------------------------------------------------------------------------------

    def flush(self, properties: Mapping[str, int] | None = None) -> None:
        """Send the collected acks now. Without a connection, they stay until there is one."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        link = self._owner.connection()
        if link is None:
            return
        pending = self._acks.take()
        answer, self._answer = self._answer, None
        if pending is None:
            if answer is not None:
                _settle(answer)
        elif answer is None:
            link.write(*[build(None) for build in self._commands(pending, properties)])
        else:
            self._ask(link, self._commands(pending, properties), answer)

    def _flush_is_due(self) -> None:
        self._flush_timer = None
        self.flush()

    def _commands(
        self, pending: PendingAcks, properties: Mapping[str, int] | None
    ) -> list[Callable[[int | None], bytes]]:
        """Return functions that build a command for a request id. With None, the broker sends no answer."""
        consumer_id, given = self._owner.consumer_id, properties or {}

        def builder(ids: Sequence[EntryAck], cumulative: bool) -> Callable[[int | None], bytes]:
            return lambda request_id: commands.ack(
                consumer_id, ids, cumulative=cumulative, properties=given, request_id=request_id
            )

        found = [] if pending.cumulative is None else [builder([pending.cumulative], True)]
        ids = pending.individual
        found += [builder(ids[start : start + _CHUNK], False) for start in range(0, len(ids), _CHUNK)]
        return found

    def _ask(
        self, link: AckLink, builders: Sequence[Callable[[int], bytes]], answer: asyncio.Future[None]
    ) -> None:
        timeout_s = self._options.receipt_timeout_s
        asked = asyncio.gather(
            *[link.ask(build, timeout_s=timeout_s) for build in builders], return_exceptions=True
        )

        def answered(outcomes: asyncio.Future[list[Any]]) -> None:
            errors = [each for each in outcomes.result() if isinstance(each, BaseException)]
            _settle(answer, errors[0] if errors else None)

        asked.add_done_callback(answered)
        self._sending.add(answer)
        answer.add_done_callback(self._sending.discard)

    async def close(self, within_s: float) -> None:
        """Send the collected acks and wait for their receipts, at most `within_s`. Safe to repeat.

        Without a connection the acks are lost: their messages are delivered again, and receipts raise AlreadyClosed.
        """
        self._is_closed = True
        self.flush()
        if self._answer is not None:
            _settle(self._answer, AlreadyClosed("the consumer was closed while it had no connection"))
            self._answer = None
        if self._sending:
            await asyncio.wait(self._sending, timeout=within_s)

    def _require_open(self) -> None:
        if self._is_closed:
            raise AlreadyClosed("the consumer is closed: its unacked messages are delivered again")


def id_of(message: Message | MessageId) -> MessageId:
    """Return the id of a message. Raises InvalidConfiguration if it is neither a message nor an id."""
    if isinstance(message, MessageId):
        return message
    if isinstance(message, Message):
        return message.message_id()
    raise no_message(message)


def acked_id(message: Message | MessageId) -> MessageId:
    """Do the same as `id_of`, but also raise OperationNotSupported for an id that no message has."""
    found = id_of(message)
    if not 0 <= found.ledger_id() < _AFTER_ALL or found.entry_id() < 0:
        raise OperationNotSupported(
            f"{found!r} is not the id of a message: acknowledge received messages; to move the subscription, use seek"
        )
    return found


def no_message(given: object) -> InvalidConfiguration:
    """Return the error for an argument that is neither a message nor an id."""
    return InvalidConfiguration(f"pass a received message or its MessageId, not {given!r}")


def _settle(answer: asyncio.Future[None], error: BaseException | None = None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)
        answer.exception()  # mark it as seen: asyncio must not log it if nobody awaits it
