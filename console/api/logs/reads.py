"""Read a log or a backlog without consuming anything."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Path, Query, Router
from pydantic import BaseModel, Field

from broker.environment import Between
from console.api.access import SEES_PAYLOADS, AuthorizedRequest
from console.api.answers import Message, Messages
from console.api.app import read
from console.api.found import found_subscription, found_topic
from console.api.parameters import TopicPath
from console.api.problems import Problem
from console.api.topics.topics import TOPIC
from console.messages.analysis import ANALYSED_ENTRIES, ANALYSED_S, BacklogAnalysis, analyse
from console.messages.examine import examine
from console.messages.peek import PeekedMessage, next_messages

__all__ = ["router"]

PEEK_MOST = 100
_SUBSCRIPTION = f"{TOPIC}/subscriptions/{{name:subscription}}"
router = Router(auth=SEES_PAYLOADS)


class Peek(BaseModel):
    """The number of messages to show."""

    limit: Annotated[int, Between(1, PEEK_MOST)] = 20


class Place(BaseModel):
    """The position of the message to show."""

    origin: Annotated[Literal["earliest", "latest"], Field(alias="from")] = "earliest"
    position: Annotated[
        int, Between(1, 10**15), Field(description="1 is the first, or the last, message kept")
    ] = 1


class Extent(BaseModel):
    """The number of entries to look at."""

    entries: Annotated[int, Between(1, ANALYSED_ENTRIES)] = ANALYSED_ENTRIES


@read(router, f"{_SUBSCRIPTION}/peek", response=Messages)
def peek(
    request: AuthorizedRequest, topic: Path[TopicPath], subscription: str, asked: Query[Peek]
) -> dict[str, Any]:
    """Show the next unacknowledged messages.

    If the topic is partitioned, the path must name one of its partitions, such as orders-partition-0.
    """
    return {"messages": next_messages(found_subscription(topic.full_name, subscription), asked.limit)}


@read(router, f"{TOPIC}/examine", response=Message)
def examined(request: AuthorizedRequest, topic: Path[TopicPath], asked: Query[Place]) -> PeekedMessage:
    """Show one message by its position in the topic.

    Position 1 is the first message. With from=latest, position 1 is the last message.
    """
    head = found_topic(topic.full_name)
    found = examine(head.id, position=asked.position, from_end=asked.origin == "latest")
    if found is None and head.partitions:
        raise Problem(
            404,
            "MessageNotFound",
            f"{head.name} is partitioned, and each partition has its own messages: name"
            f" {head.name}-partition-0, or another one",
        )
    if found is None:
        raise Problem(404, "MessageNotFound", f"{head.name} keeps fewer than {asked.position} messages")
    return found


@read(router, f"{_SUBSCRIPTION}/backlog", response=BacklogAnalysis)
def backlog(
    request: AuthorizedRequest, topic: Path[TopicPath], subscription: str, asked: Query[Extent]
) -> BacklogAnalysis:
    """Count the messages, bytes and keys of a backlog.

    The count stops after `entries` entries or about 120 s.
    """
    return analyse(
        found_subscription(topic.full_name, subscription), entries=asked.entries, seconds=ANALYSED_S
    )
