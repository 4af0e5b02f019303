"""The values that `broker/pulls` and `broker/doors/pull` exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from broker.core.parked_pulls import ParkedRequest

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.core.topic_name import TopicName
    from vela.wire.entry import Message

__all__ = ["ParkedPull", "PullAnswer", "PullAsk", "PullStatus", "PulledMessage"]


class PullStatus(Enum):
    """The outcome of a pull."""

    FOUND = "found"
    NOT_FOUND = "not found"
    NONE_MATCHED = "none matched"
    OFFSET_MOVED = "offset moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAsk:
    """One pull: a request for the messages of one queue from an offset."""

    topic: TopicName  # the partitioned topic, or the plain one
    queue: int  # the partition; 0 for a topic without partitions
    offset: int  # of the first message wanted, counted in messages since the topic began
    max_messages: int
    matches: Callable[[Mapping[str, str]], bool] | None  # by a message's properties; None = all
    may_suspend: bool
    suspend_timeout_ms: int


class PulledMessage(NamedTuple):
    """One message and its place in the queue."""

    offset: int
    position: Position
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAnswer:
    """The answer to a pull."""

    status: PullStatus
    next_begin_offset: int  # the offset to pull next
    min_offset: int  # of the oldest message kept; also 0 if the queue could not be read, or the broker stops
    max_offset: int  # the offset that the next stored message will get
    partition: int  # -1 = the topic has none
    messages: Sequence[PulledMessage] = ()
    unreadable_messages: int = 0  # skipped because their entries are unreadable, such as encrypted ones


@dataclass(slots=True, kw_only=True, eq=False)
class ParkedPull(ParkedRequest):
    """A pull without an answer yet. `answer` is set once, unless the pull is forgotten first."""

    ask: PullAsk
    answer: asyncio.Future[PullAnswer]
    address: str = ""  # of the client, with its port; "" = unknown
