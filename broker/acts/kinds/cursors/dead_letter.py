"""Copy one message to a dead-letter topic on an operator's request.

The copy is durable before the cursor moves. If the broker dies before the move, the dead-letter topic may
get two copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.change import Change, PlannedMove, Target
from broker.acts.kinds.cursors.cursor_kind import CursorKind
from broker.acts.kinds.cursors.letter_copies import copies_of, publish
from broker.acts.kinds.cursors.letter_topic import READER, find_letter_topic, keep_letters
from broker.acts.kinds.cursors.skip import TheMessage, find_one
from broker.acts.kinds.parameters import ActInvalid, Rule
from broker.core.counted import counted
from broker.core.errors import BrokerError, InvalidTopicName
from broker.core.topic_name import TopicName

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription

__all__ = ["Letter", "SendToDeadLetters"]

_PUBLISH_S: Final = 5.0  # Short, because the subscription delivers nothing until the letter is stored
_IDS_KEPT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter(TheMessage):
    """The message to send, and its dead-letter topic."""

    to_topic: Annotated[
        str | None,
        Rule(
            "dead-letter topic; by default the one that the connected consumers use, if the broker knows it, otherwise"
            " TOPIC-SUBSCRIPTION-DLQ"
        ),
    ] = None
    keep: Annotated[
        bool,
        Rule(
            f"create the subscription {READER} on the dead-letter topic if it has none, so that the letter is kept"
        ),
    ] = True

    def __post_init__(self) -> None:
        if self.to_topic is not None:
            try:
                TopicName.parse(self.to_topic)
            except InvalidTopicName as error:
                raise ActInvalid(f"to_topic: {error}") from error


class SendToDeadLetters(CursorKind[Letter]):
    """Copy a message to a dead-letter topic, then acknowledge the message."""

    name = "send_to_dead_letters"
    summary = "Copy one message to the dead-letter topic, then acknowledge it on behalf of the subscription."
    parameters = Letter

    def message_id(self, given: Letter) -> str:
        return given.id

    def other_topics(self, given: Letter) -> tuple[str, ...]:
        return () if given.to_topic is None else (TopicName.parse(given.to_topic).full,)

    def other_topics_of_plan(self, planned: Mapping[str, Any]) -> tuple[str, ...]:
        letter_topic = planned.get("letter_topic")
        return (letter_topic,) if isinstance(letter_topic, str) else ()

    async def find(self, context: ActContext, subscription: Subscription, given: Letter) -> Change:
        target = await find_one(context, subscription, given.id)
        letter_topic = await find_letter_topic(context, subscription, given.to_topic, keep=given.keep)
        await copies_of(context, subscription, target)
        return replace(
            _to(target, letter_topic.name.full, keep=given.keep and letter_topic.is_unread),
            notes=(
                *letter_topic.notes,
                "an undo gives the message back to the subscription, and the letter stays in the dead-letter topic",
                (
                    "if the broker dies between letter and acknowledgement, it writes the letter again when it starts:"
                    " the message is not lost, and the dead-letter topic gets it twice"
                ),
            ),
        )

    def pinned(self, planned: Mapping[str, Any]) -> Change:
        pinned = planned["pinned"]
        return _to(Target.from_json(pinned), pinned["letter_topic"], keep=pinned["keep"])

    async def prepare(
        self, context: ActContext, subscription: Subscription, change: Change
    ) -> Mapping[str, object]:
        target, topic = _pinned(change)
        letters = await copies_of(context, subscription, target)
        try:
            async with asyncio.timeout(_PUBLISH_S):
                stored = await publish(context, topic, letters)
                if (change.pinned or {})["keep"]:
                    await keep_letters(context, topic)
        except TimeoutError as error:
            raise ActInvalid(
                f"{topic} did not confirm the letter within {_PUBLISH_S:g} s: the letter may or may not be stored."
                " The message is not acknowledged; plan again"
            ) from error
        except BrokerError as error:
            raise ActInvalid(f"cannot write to {topic}, so nothing is acknowledged: {error}") from error
        return {"letter_topic": topic, "letter_messages": len(letters), "letter_ids": stored[:_IDS_KEPT]}

    async def _shown(
        self, context: ActContext, subscription: Subscription, move: PlannedMove, change: Change
    ) -> dict[str, object]:
        target, topic = _pinned(change)
        letters = await copies_of(context, subscription, target)
        shown = await super()._shown(context, subscription, move, change)
        return shown | {
            "words": [
                f"{counted(len(letters), 'message is', 'messages are')} copied to {topic}, then acknowledged here"
            ],
            "letter_topic": topic,
            "letter_messages": len(letters),
        }


def _to(target: Target, letter_topic: str, *, keep: bool) -> Change:
    return replace(
        target.as_change(), pinned={**target.to_json(), "letter_topic": letter_topic, "keep": keep}
    )


def _pinned(change: Change) -> tuple[Target, str]:
    pinned = change.pinned or {}
    return Target.from_json(pinned), str(pinned["letter_topic"])
