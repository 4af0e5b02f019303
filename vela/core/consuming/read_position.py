"""Where a consumer reads: its start, and the message that the application took last.

A non-durable subscription exists only while its consumer is connected. After a lost connection, this decides where the
next subscription begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vela.core.consuming.availability import has_more
from vela.core.consuming.start_position import StartPosition
from vela.message import Message, MessageId
from vela.wire.message_id import MessageId as WireId

if TYPE_CHECKING:
    from vela.core.acks.batch_acks import Position

__all__ = ["ReadPosition"]


class ReadPosition:
    """The place of one consumer in its topic, over all its connections."""

    __slots__ = (
        "_is_durable",
        "_seeks_inclusive",
        "_start_id",
        "_start_inclusive",
        "_start_ms",
        "last_taken",
        "start",
    )

    def __init__(self, start_id: MessageId | None, *, inclusive: bool, durable: bool) -> None:
        """`start_id`: only if the subscription is not durable. `inclusive`: begin at the message of a start or seek."""
        self.start: StartPosition | None = None
        """Where the consumer began, or where the last seek moved it. Earlier messages of the same entry are skipped."""
        self.last_taken: Message | None = None
        """The message that the application took last, after the last seek."""
        self._is_durable = durable
        self._seeks_inclusive = inclusive
        self._start_id = start_id
        self._start_inclusive = inclusive
        self._start_ms: int | None = None  # the target of the last seek to a time

    def sought(self, target: MessageId | int) -> None:
        """Move to the target of a seek: a message, or a time in milliseconds since 1970."""
        self.last_taken = None
        if isinstance(target, MessageId):
            self._start_id, self._start_inclusive = target, self._seeks_inclusive
            self.start = StartPosition.at(target, inclusive=self._start_inclusive)
        else:
            self._start_id, self.start, self._start_ms = None, None, target

    def resume(self, untaken: Sequence[Message]) -> MessageId | None:
        """Return the message id at which a non-durable subscription begins, or None if it has none.

        It begins after the last taken message. If there is none, it begins with the first of `untaken`, the messages
        that arrived but were not taken: where it last began may have been the end of the topic, which has moved on. If
        nothing arrived, it begins where it last began.
        """
        if self._is_durable:
            return None
        last = self.last_taken
        if last is not None:
            self._start_id, self._start_inclusive = last.message_id(), False
        elif untaken:
            self._start_id, self._start_inclusive = untaken[0].message_id(), True
        if self._start_id is not None:
            self.start = StartPosition.at(self._start_id, inclusive=self._start_inclusive)
        return self._start_id

    def rollback_s(self, now_ms: int) -> int:
        """Return how many seconds back a non-durable subscription without a start id begins.

        The broker may have forgotten where the last seek moved the subscription. The number is rounded up to whole
        seconds, so a few earlier messages may arrive too.
        """
        if self._is_durable or self._start_id is not None or self._start_ms is None:
            return 0
        return max(0, -(-(now_ms - self._start_ms) // 1000))

    def has_more(self, *, last: WireId, mark_delete: WireId | None, newest: Position | None) -> bool:
        """Return whether the topic has messages after those that have arrived.

        `last` is the topic's newest message, and `newest` the newest entry that has arrived. For the rest see
        `availability.has_more`.
        """
        if newest is not None and newest >= (last.ledger_id, last.entry_id):
            return False
        taken = None if self.last_taken is None else self.last_taken.message_id()
        return has_more(last=last, mark_delete=mark_delete, start=self.start, taken=taken)
