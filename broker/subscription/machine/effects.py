"""The effects: everything that a subscription's machine can ask its runner to do.

An effect names a consumer by its key, because the consumer may have left before the effect is carried out. An effect
without data is a member of `Wish`. `Batch` and `Deliver` are not effects: `Sending.next_batch` returns them.
The classes with data are named tuples, because some are made for every write and dataclasses take longer to create.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from broker.core.entry import StoredEntry
    from broker.core.errors import BrokerError
    from broker.core.ledgers.message_index import Range
    from broker.core.position import Position
    from broker.core.subscription.delivery_deadlines import Due
    from broker.subscription.requests import Delivery, DurableCallback

__all__ = [
    "ACKED",
    "ACKED_BY_READER",
    "SEND",
    "AskConsumer",
    "Batch",
    "Deliver",
    "Effect",
    "Effects",
    "KeepBack",
    "LoadCounts",
    "ReadAhead",
    "ReadChosen",
    "ReadCompacted",
    "Say",
    "SendLater",
    "Settle",
    "SettleWhenDurable",
    "TellActive",
    "TellEnd",
    "Watch",
    "Wish",
]


class Wish(Enum):
    """An effect without data."""

    SEND = "send what can be sent now"
    DIRTY = "store the cursor, soon"
    CHANGED = "report what has changed"
    APPLY_LATE_ACKS = "load the counts that acks need, then apply the acks"
    SWITCH_SOON = "switch the active consumer on Failover, once the current callback is over"
    FORGET = "forget this reader's cursor: nobody is left to use it"

    __hash__ = object.__hash__  # Enum's own hash is Python code, and wishes are looked up often


class Deliver(NamedTuple):
    """Hand these deliveries to a consumer."""

    key: int
    deliveries: list[Delivery]


class Batch(NamedTuple):
    """One step of dispatch: carry out `effects`, then hand over `deliveries`, then ask for the next step."""

    deliveries: Sequence[Deliver]
    effects: Effects
    entries: int  # number of entries found for this step, sent or not
    size_bytes: int  # of these entries
    # When its first entry was appended; 0 = nothing is sent, or only entries of the replay set.
    oldest_append_ms: int
    goes_on: bool  # False: something has to happen before more can be sent


class ReadAhead(NamedTuple):
    """Read the log from `position`, then report the entries."""

    position: Position


class ReadChosen(NamedTuple):
    """Read these entries, then report them."""

    positions: Sequence[Position]


class ReadCompacted(NamedTuple):
    """Read the entries that compaction kept, from `first`, then report them."""

    first: Position


class LoadCounts(NamedTuple):
    """Load the message counts of these entries, then continue sending.

    The broker acks the entries that it discards instead of sending, and an ack needs message counts.
    """

    ranges: Sequence[Range]


class SendLater(NamedTuple):
    """A dispatch rate allows nothing now; send again after `wait_ms`."""

    wait_ms: int


class Settle(NamedTuple):
    """Answer an ack now, with an error or None."""

    receipt: DurableCallback
    error: BrokerError | None


class SettleWhenDurable(NamedTuple):
    """Store the cursor as soon as possible, and answer an ack when the cursor is stored."""

    receipt: DurableCallback


class TellActive(NamedTuple):
    """On a Failover subscription, tell a consumer whether it is active."""

    key: int
    waits: bool  # whether to wait for the end of the current callback, which answers SUBSCRIBE


class TellEnd(NamedTuple):
    """Tell these consumers that the topic is terminated and everything in it is acked."""

    keys: Sequence[int]


class AskConsumer(NamedTuple):
    """Ask a consumer which of its overdue deliveries to redeliver."""

    key: int
    due: Sequence[Due]


class Watch(NamedTuple):
    """Call `time_passed` at this time, or earlier if something is due earlier."""

    due_ms: int


class KeepBack(NamedTuple):
    """Put these entries back among the topic's delayed messages, because they were read before their delivery time."""

    entries: Sequence[StoredEntry]


class Say(NamedTuple):
    """Log a line that begins with the names of the topic and subscription; add the traceback of `error`, if any."""

    level: int  # as in Python's logging
    text: str
    values: tuple[object, ...] = ()
    error: BaseException | None = None


Effect: TypeAlias = (
    Wish
    | ReadAhead
    | ReadChosen
    | ReadCompacted
    | LoadCounts
    | SendLater
    | Settle
    | SettleWhenDurable
    | TellActive
    | TellEnd
    | AskConsumer
    | Watch
    | KeepBack
    | Say
)
Effects: TypeAlias = Sequence[Effect]

SEND: Final[Effects] = (Wish.SEND,)
ACKED: Final[Effects] = (Wish.DIRTY, Wish.CHANGED, Wish.SEND)
ACKED_BY_READER: Final[Effects] = (Wish.CHANGED, Wish.SEND)
