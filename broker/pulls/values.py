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
    """A request for messages of one queue."""

    topic: TopicName
    queue: int  # The partition, or 0 if the topic has no partitions
    offset: int  # Counted in messages since the topic began
    max_messages: int
    matches: Callable[[Mapping[str, str]], bool] | None  # If None, all messages match
    may_suspend: bool
    suspend_timeout_ms: int


class PulledMessage(NamedTuple):
    """A message and its place in the queue."""

    offset: int
    position: Position
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAnswer:
    """The answer to a pull."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int  # 0 if unknown
    max_offset: int  # Offset of the next message to be stored
    partition: int  # -1 if the topic has no partitions
    messages: Sequence[PulledMessage] = ()
    unreadable_messages: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class ParkedPull(ParkedRequest):
    """A pull that waits for its answer."""

    ask: PullAsk
    answer: asyncio.Future[PullAnswer]
    address: str = ""  # The client's host and port, or "" if unknown
