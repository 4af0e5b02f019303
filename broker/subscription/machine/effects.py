"""What a subscription's machine wants done: every word that passes from it to its runner.

A consumer is named by its key, since it may have left by the time its effect is carried out. What is made for every
write is a named tuple; what carries nothing is a `Wish`, so that the commonest effects are made once.
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
    """An effect that needs no more than its name."""

    SEND = "send what can be sent now"
    DIRTY = "store the cursor, soon"
    CHANGED = "report what has changed"
    APPLY_LATE_ACKS = "load the counts that acks need, then apply them"
    SWITCH_SOON = "let time pass once the present callback is over: a Failover switch is due"
    FORGET = "nobody is left who could use this reader's cursor"

    __hash__ = object.__hash__  # an enum's own is Python code, and some are looked up for every ack


class Deliver(NamedTuple):
    """Write these to a consumer, in one transport write. Permits are spent and pending acks are recorded."""

    key: int
    deliveries: list[Delivery]


class Batch(NamedTuple):
    """One step of dispatch: carry out `effects`, then write `deliveries`, then ask for the next one."""

    deliveries: Sequence[Deliver]
    effects: Effects
    entries: int  # found for it, whether or not they are sent
    size_bytes: int  # of these
    oldest_append_ms: int  # of what goes out for the first time; 0 = nothing does
    goes_on: bool  # False: something has to happen before more can be sent


class ReadAhead(NamedTuple):
    """Read from a position on, then report what was read."""

    position: Position


class ReadChosen(NamedTuple):
    """Read these entries, then report what was read."""

    positions: Sequence[Position]


class LoadCounts(NamedTuple):
    """Load the counts of these entries, then send again: without them something found cannot be acked."""

    ranges: Sequence[Range]


class SendLater(NamedTuple):
    """A dispatch rate allows nothing now; send again after so many milliseconds."""

    wait_ms: int


class Settle(NamedTuple):
    """Answer an ack now, with what was wrong or None."""

    receipt: DurableCallback
    error: BrokerError | None


class SettleWhenDurable(NamedTuple):
    """Store the cursor at once, and answer an ack when it is stored."""

    receipt: DurableCallback


class TellActive(NamedTuple):
    """Failover: tell a consumer whether it is the active one."""

    key: int
    waits: bool  # until the present callback is over and the answer to its SUBSCRIBE has been written


class TellEnd(NamedTuple):
    """The topic is terminated and everything in it is acked: tell these consumers, once."""

    keys: Sequence[int]


class AskConsumer(NamedTuple):
    """Deliveries are overdue: ask their consumer which of them are to come again."""

    key: int
    due: Sequence[Due]


class Watch(NamedTuple):
    """Let time pass at this time, or earlier."""

    due_ms: int


class KeepBack(NamedTuple):
    """Entries that were read before their delivery time; they wait with the topic's delayed messages."""

    entries: Sequence[StoredEntry]


class Say(NamedTuple):
    """A line for the log, behind the names of topic and subscription; `error` with its traceback."""

    level: int  # as in Python's logging
    text: str
    values: tuple[object, ...] = ()
    error: BaseException | None = None


Effect: TypeAlias = (
    Wish
    | ReadAhead
    | ReadChosen
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
