"""Effects that a subscription's state machine returns. The subscription's runner carries out the effects.

Effects contain consumer keys instead of consumers, because a consumer may be detached before the runner acts.
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

    __hash__ = object.__hash__  # Enum's own hash is slower, because it is Python code


class Deliver(NamedTuple):
    """Hand these deliveries to a consumer."""

    key: int
    deliveries: list[Delivery]


class Batch(NamedTuple):
    """One step of dispatch. The runner carries out `effects`, then sends `deliveries`."""

    deliveries: Sequence[Deliver]
    effects: Effects
    entries: int  # Entries found, whether sent or not
    size_bytes: int
    # Append time of the first entry to send. This is 0 if no entry is sent or the entries are replayed.
    oldest_append_ms: int
    goes_on: bool  # Whether more entries can be sent now


class ReadAhead(NamedTuple):
    """Read the log from `position` and report the entries to the state machine."""

    position: Position


class ReadChosen(NamedTuple):
    """Read these entries and report them to the state machine."""

    positions: Sequence[Position]


class ReadCompacted(NamedTuple):
    """Read compacted entries from `first` and report them to the state machine."""

    first: Position


class LoadCounts(NamedTuple):
    """Load the message counts of these entries, then continue sending."""

    ranges: Sequence[Range]


class SendLater(NamedTuple):
    """Continue sending after `wait_ms`."""

    wait_ms: int


class Settle(NamedTuple):
    """Answer an ack now. If `error` is None, the ack succeeded."""

    receipt: DurableCallback
    error: BrokerError | None


class SettleWhenDurable(NamedTuple):
    """Store the cursor soon, then answer an ack."""

    receipt: DurableCallback


class TellActive(NamedTuple):
    """Tell a consumer of a Failover subscription whether it is active."""

    key: int
    waits: bool  # Whether to wait until SUBSCRIBE is answered


class TellEnd(NamedTuple):
    """Tell these consumers that the topic is terminated and fully acked."""

    keys: Sequence[int]


class AskConsumer(NamedTuple):
    """Ask a consumer which of its overdue deliveries to redeliver."""

    key: int
    due: Sequence[Due]


class Watch(NamedTuple):
    """Call the state machine's `time_passed` at `due_ms`."""

    due_ms: int


class KeepBack(NamedTuple):
    """Return these entries to the topic's delayed messages."""

    entries: Sequence[StoredEntry]


class Say(NamedTuple):
    """Log a line that begins with the names of the topic and subscription."""

    level: int
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
