"""The delivery story of one message."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Path, Router
from pydantic import BaseModel, Field

from console.api.access import AuthorizedRequest
from console.api.app import read
from console.api.found import found_message
from console.api.parameters import TopicPath
from console.api.topics.topics import TOPIC
from console.messages.message import states_of
from console.story.told import StoryLine, SubscriptionStory, kept_of, stories_of
from console.story.words import line_words, recorded

__all__ = ["router"]

router = Router()


class StoryEvent(BaseModel):
    """One thing that happened to the message."""

    event: str = Field(
        description="delivered, acked, partly_acked; asked_again, negatively_acked, timed_out, consumer_left,"
        " consumer_switched, taken_back: the message came back; dead_lettered, retry_lettered, expired, corrupt,"
        " marker, filtered; taken_out, passed, brought_back: by an act"
    )
    at_ms: int = Field(description="it happened at this time, or between this and until_ms")
    until_ms: int
    consumer: str = Field(description="empty: the broker, or an act")
    address: str = Field(description="of the consumer's connection")
    redelivery_count: int
    topic: str = Field(description="of the letter, if it became one")
    act: int | None
    who: str = Field(description="who requested the act")
    words: str


class LeftOut(BaseModel):
    """Events that were not recorded, because there were too many.

    Some of these events may have happened to neighbouring messages.
    """

    at_ms: int
    until_ms: int
    events: int


class StoryOnSubscription(BaseModel):
    """The events of the message on one subscription, oldest first."""

    subscription: str
    state: Literal["acked", "in flight", "delayed", "unacked"]
    events: list[StoryEvent]
    left_out: LeftOut | None
    is_cut: bool = Field(description="true: there may be older events, which are not here")


class DeliveryStory(BaseModel):
    """The events of a message since it was published."""

    id: str
    topic: str
    publish_ms: int | None = Field(description="by its producer's clock")
    append_ms: int
    producer: str
    recorded: Literal["off", "redelivered", "all"] = Field(description="the policy delivery_story in force")
    kept_ms: int = Field(description="how long events are kept")
    words: str = Field(description="what is recorded, and what is not")
    subscriptions: list[StoryOnSubscription]
    subscriptions_are_all: bool = Field(description="false: the topic has more; these are the first by name")


@read(router, f"{TOPIC}/messages/{{name:spot}}/story", response=DeliveryStory)
def story(request: AuthorizedRequest, topic: Path[TopicPath], spot: str) -> dict[str, Any]:
    """Show what happened to a message on each subscription.

    The viewer role is enough, because the story shows no key and no payload.
    """
    head, found = found_message(topic.full_name, spot)
    header, states, kept = found.opened.header, states_of(found), kept_of(head)
    stories = stories_of(found, states)
    return {
        "id": str(found.spot),
        "topic": head.name,
        "publish_ms": None if header is None else header.publish_time_ms,
        "append_ms": found.opened.stored.append_ms,
        "producer": "" if header is None else header.producer_name,
        "recorded": kept.mode,
        "kept_ms": kept.keep_ms,
        "words": recorded(kept),
        "subscriptions": [
            {"subscription": cursor.name, "state": state.word, **_told(stories[cursor.id])}
            for cursor, state in states.rows
        ],
        "subscriptions_are_all": states.is_all,
    }


def _told(story: SubscriptionStory) -> dict[str, Any]:
    left_out = story.left_out
    return {
        "events": [_event(line) for line in story.lines],
        "left_out": None
        if left_out is None
        else {"at_ms": left_out.at_ms, "until_ms": left_out.until_ms, "events": left_out.events},
        "is_cut": story.is_cut,
    }


def _event(line: StoryLine) -> dict[str, Any]:
    return {
        "event": line.event,
        "at_ms": line.at_ms,
        "until_ms": line.until_ms,
        "consumer": line.consumer,
        "address": line.address,
        "redelivery_count": line.redelivery_count,
        "topic": line.topic,
        "act": line.act_id,
        "who": line.who,
        "words": line_words(line),
    }
