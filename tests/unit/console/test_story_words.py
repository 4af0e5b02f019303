"""The words of delivery stories, and which acts concern a message."""

from __future__ import annotations

import pytest

from broker.models import StoryEvent
from console.story.acts import ActOnMessage, Effect, effect_of
from console.story.told import Kept, StoryLine
from console.story.words import line_before, line_words, recorded

NAMES = [each.name.lower() for each in StoryEvent if each is not StoryEvent.UNRECORDED]


@pytest.mark.parametrize("event", [*NAMES, *Effect])
def test_every_event_has_words(event: str) -> None:
    act_id = 7 if event in list(Effect) else None
    line = StoryLine(event=event, at_ms=1, until_ms=1, consumer="c", act_kind="skip", act_id=act_id)
    assert line_before(line)
    assert " c" in line_words(line)


def test_a_line_says_its_details_in_brackets() -> None:
    delivered = StoryLine(
        event="delivered", at_ms=1, until_ms=1, consumer="c", address="10.0.0.7:1", redelivery_count=2
    )
    assert line_words(delivered) == "delivered to c (10.0.0.7:1, redelivery count 2)"
    taken_out = StoryLine(
        event="taken_out", at_ms=1, until_ms=1, act_kind="send_to_dead_letters", act_id=7, who="al", topic="d"
    )
    assert line_words(taken_out) == "sent to the dead letters by an operator (Send to dead letters by al, d)"


@pytest.mark.parametrize("mode", ["off", "redelivered", "all"])
def test_every_mode_says_what_is_recorded(mode: str) -> None:
    assert f"delivery_story is {mode}" in recorded(Kept(mode=mode, keep_ms=1000))


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ("1:4", "1:5", Effect.PASSED),
        ("1:5", "1:9", None),  # an earlier move had passed the message
        ("1:9", "1:4", Effect.BROUGHT_BACK),
        ("2:9", "1:5", None),
        ("0:9", "2:0", Effect.PASSED),
        (None, "1:9", None),
    ],
)
def test_a_move_concerns_what_lies_between(before: str | None, after: str, effect: Effect | None) -> None:
    assert effect_of(_act(before=before, after=after, how="move"), (1, 5), -1) is effect


@pytest.mark.parametrize(
    ("position", "remaining", "batch_index", "effect"),
    [
        ("1:5", None, -1, Effect.TAKEN_OUT),
        ("1:5", None, 2, Effect.TAKEN_OUT),
        ("1:6", None, -1, None),
        ("1:5", "d", 1, Effect.TAKEN_OUT),  # 0b1101
        ("1:5", "d", 2, None),
    ],
)
def test_an_act_on_one_message_concerns_no_other(
    position: str, remaining: str | None, batch_index: int, effect: Effect | None
) -> None:
    act = _act(before="1:1", after="1:1", how="one", position=position, remaining=remaining)
    assert effect_of(act, (1, 5), batch_index) is effect


def _act(
    *, before: str | None, after: str, how: str, position: str | None = None, remaining: str | None = None
) -> ActOnMessage:
    return ActOnMessage(
        id=1,
        subscription_id=1,
        kind="skip",
        who="al",
        finished_ms=1,
        before=before,
        after=after,
        how=how,
        position=position,
        remaining=remaining,
        letter_topic=None,
    )
