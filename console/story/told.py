"""The delivery story of one message: its recorded events, and the acts that affected it.

An act is a logged change, such as the reset of a cursor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from broker.conf import broker_settings
from broker.models import StoryEvent
from broker.topics.policies_in_force import effective_policies
from console.messages.message import FoundMessage, SubscriptionStates
from console.queries.topics.policies import topic_policies
from console.queries.topics.topic import TopicHead
from console.story.acts import MOST_ACTS, ActOnMessage, Effect, acts_on, effects_of
from console.story.rows import MOST_ROWS, StoryRow, in_order, moment_of, rows_of

__all__ = ["Kept", "StoryLine", "SubscriptionStory", "kept_of", "stories_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryLine:
    """A recorded event, or an act that affected the message."""

    event: str  # Name of a StoryEvent in lower case, or an Effect
    at_ms: int  # The event happened between `at_ms` and `until_ms`
    until_ms: int
    consumer: str = ""
    address: str = ""
    redelivery_count: int = 0
    topic: str = ""  # Topic of a dead letter or retry letter
    act_id: int | None = None
    act_kind: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStory:
    """The known events and acts on one subscription, from old to new."""

    lines: Sequence[StoryLine]
    left_out: StoryRow | None  # Stands for the events that the broker had no room to record
    is_cut: bool  # Whether older events may exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The policies for recording events."""

    mode: str  # Value of the policy `delivery_story`
    keep_ms: int


R = TypeVar("R", StoryRow, ActOnMessage)

_NOTHING = SubscriptionStory(lines=(), left_out=None, is_cut=False)


def kept_of(head: TopicHead) -> Kept:
    """Return the policies for recording events on a topic."""
    documents = topic_policies(head.name)
    if documents is None:  # The topic was deleted a moment ago
        policies = effective_policies(broker_settings(), {}, {}, where=head.name)
    else:
        policies = effective_policies(broker_settings(), documents.namespace, documents.own, where=head.name)
    return Kept(mode=policies.delivery_story.value, keep_ms=policies.delivery_story_ms)


def stories_of(found: FoundMessage, states: SubscriptionStates) -> Mapping[int, SubscriptionStory]:
    """Return the message's story on each subscription, by subscription id."""
    ids = [cursor.id for cursor, _ in states.rows]
    stored = found.opened.stored
    rows = _by_subscription(rows_of(ids, stored.place))
    acts = _by_subscription(acts_on(ids, stored.append_ms))
    return {each: _story(rows.get(each, []), acts.get(each, []), found) for each in ids}


def _story(rows: Sequence[StoryRow], acts: Sequence[ActOnMessage], found: FoundMessage) -> SubscriptionStory:
    recorded = [row for row in rows if row.event != StoryEvent.UNRECORDED]
    left_out = next((row for row in rows if row.event == StoryEvent.UNRECORDED), None)
    dated = [(moment_of(row), _line(row)) for row in in_order(recorded)]
    latest = sorted(acts, key=attrgetter("id"))[-MOST_ACTS:]
    for act, effect in effects_of(latest, found.opened.stored.place, found.spot.batch_index):
        dated.append(((act.finished_ms, True, act.id), _act_line(act, effect)))
    is_cut = len(recorded) >= MOST_ROWS or len(acts) > MOST_ACTS
    if not dated and left_out is None and not is_cut:
        return _NOTHING
    dated.sort(key=lambda each: each[0][:2])  # Do not sort by id: events and acts have separate ids
    return SubscriptionStory(lines=[line for _, line in dated], left_out=left_out, is_cut=is_cut)


def _line(row: StoryRow) -> StoryLine:
    return StoryLine(
        event=StoryEvent(row.event).name.lower(),
        at_ms=row.at_ms,
        until_ms=row.until_ms,
        consumer=row.consumer_name,
        address=row.consumer_address,
        redelivery_count=row.redelivery_count,
        topic=row.detail,
    )


def _act_line(act: ActOnMessage, effect: Effect) -> StoryLine:
    return StoryLine(
        event=effect.value,
        at_ms=act.finished_ms,
        until_ms=act.finished_ms,
        topic=act.letter_topic or "",
        act_id=act.id,
        act_kind=act.kind,
        who=act.who,
    )


def _by_subscription(rows: Sequence[R]) -> dict[int, list[R]]:
    key = attrgetter("subscription_id")
    return {each: list(group) for each, group in groupby(sorted(rows, key=key), key=key)}
