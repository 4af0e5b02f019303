"""The words of delivery stories, and which acts concern a message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.models import StoryEvent
from console.story.acts import ActOnMessage, Effect, effects_of
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
    undone = StoryLine(event="brought_back", at_ms=1, until_ms=1, act_kind="undo", act_id=8, who="al")
    assert line_words(undone) == "brought back by an undo (Undo by al)"


@pytest.mark.parametrize("mode", ["off", "redelivered", "all"])
def test_every_mode_says_what_is_recorded(mode: str) -> None:
    assert f"delivery_story is {mode}" in recorded(Kept(mode=mode, keep_ms=1000))


@pytest.mark.parametrize(
    ("before", "after", "effects"),
    [
        ("1:4", "1:5", [Effect.PASSED]),
        ("1:5", "1:9", []),  # an earlier move had passed the message
        ("1:9", "1:4", [Effect.BROUGHT_BACK]),
        ("2:9", "1:5", []),
        ("0:9", "2:0", [Effect.PASSED]),
        (None, "1:9", []),
    ],
)
def test_a_move_concerns_what_lies_between(before: str | None, after: str, effects: list[Effect]) -> None:
    assert effects_on((1, 5), -1, _act(before=before, after=after, how="move")) == effects


@pytest.mark.parametrize(
    ("position", "remaining", "batch_index", "effects"),
    [
        ("1:5", None, -1, [Effect.TAKEN_OUT]),
        ("1:5", None, 2, [Effect.TAKEN_OUT]),
        ("1:6", None, -1, []),
        ("1:5", "d", 1, [Effect.TAKEN_OUT]),  # 0b1101
        ("1:5", "d", 2, []),
    ],
)
def test_an_act_on_one_message_concerns_no_other(
    position: str, remaining: str | None, batch_index: int, effects: list[Effect]
) -> None:
    act = _act(before="1:1", after="1:1", how="one", position=position, remaining=remaining)
    assert effects_on((1, 5), batch_index, act) == effects


SKIP_3 = {"how": "move", "position": "1:4", "inside": "1:5", "remaining": f"{0b11_1111_1000:x}"}
RESET_TO_3 = SKIP_3 | {"how": "reset", "position": "1:5"}


@pytest.mark.parametrize(
    ("before", "moved", "batch_index", "effects"),
    [
        ("1:4", SKIP_3, 0, [Effect.PASSED]),
        ("1:4", SKIP_3, 2, [Effect.PASSED]),
        ("1:4", SKIP_3, 3, []),
        ("1:2", SKIP_3, 2, [Effect.PASSED]),
        # Consumers had acked a later message of the batch already.
        ("1:4", SKIP_3 | {"remaining": f"{0b11_1010_1000:x}"}, 6, []),
        # Consumers had acked past the target, and a part of the next batch.
        ("1:3", SKIP_3 | {"position": "1:3"}, 2, []),
        # The move ends between entries; consumers had acked a part of the next batch.
        ("1:3", SKIP_3 | {"remaining": None}, 2, []),
        ("1:9", RESET_TO_3, 2, []),
        ("1:9", RESET_TO_3, 3, [Effect.BROUGHT_BACK]),
        ("1:2", RESET_TO_3, 2, [Effect.PASSED]),
        ("1:2", RESET_TO_3, 3, []),
    ],
)
def test_a_move_into_a_batch_concerns_some_of_its_messages(
    before: str, moved: dict[str, Any], batch_index: int, effects: list[Effect]
) -> None:
    assert effects_on((1, 5), batch_index, _act(before=before, after="1:4", **moved)) == effects


def test_a_second_move_into_a_batch_concerns_only_messages_that_the_first_did_not() -> None:
    acts = [
        _act(before="1:4", after="1:4", **SKIP_3),
        _act(before="1:4", after="1:4", **SKIP_3 | {"remaining": f"{0b11_1100_0000:x}"}),
        _act(before="1:4", after="1:4", how="reset", position="1:5"),
    ]
    assert effects_on((1, 5), 2, *acts) == [Effect.PASSED, Effect.BROUGHT_BACK]
    assert effects_on((1, 5), 4, *acts) == [Effect.PASSED, Effect.BROUGHT_BACK]
    assert effects_on((1, 5), 7, *acts) == []


def test_an_undo_brings_back_what_its_act_took_out_though_mark_delete_stays() -> None:
    one = _act(before="1:1", after="1:1", how="one", position="1:5", remaining="d")
    moved = _act(before="1:4", after="1:4", **SKIP_3)
    for act, batch_index, effect in ((one, 1, Effect.TAKEN_OUT), (moved, 1, Effect.PASSED)):
        undo = _act(kind="undo", before=act.before, after=act.after, undo_of=1)
        again = _act(kind="undo", before=act.before, after=act.after, undo_of=2)
        assert effects_on((1, 5), batch_index, act, undo) == [effect, Effect.BROUGHT_BACK]
        assert effects_on((1, 5), batch_index, act, undo, again) == [
            effect,
            Effect.BROUGHT_BACK,
            Effect.PASSED,
        ]
        assert effects_on((1, 5), 3, act, undo) == []


@pytest.mark.parametrize(("kind", "effects"), [("seek", [Effect.BROUGHT_BACK]), ("evict", [])])
def test_a_seek_brings_back_a_skipped_message_and_an_eviction_does_not(
    kind: str, effects: list[Effect]
) -> None:
    one = _act(before="1:1", after="1:1", how="one", position="1:5")
    move = _act(kind=kind, before="1:1", after="1:3")
    assert effects_on((1, 5), -1, one, move) == [Effect.TAKEN_OUT, *effects]
    past = _act(before="1:3", after="1:9", how="move", position="1:9")
    assert effects_on((1, 5), -1, one, past) == [Effect.TAKEN_OUT]  # it was out already


def effects_on(place: tuple[int, int], batch_index: int, *acts: ActOnMessage) -> list[Effect]:
    """Return the effects on a message of these acts, which get the ids 1, 2 and so on."""
    numbered = [replace(act, id=number) for number, act in enumerate(acts, start=1)]
    return [effect for _, effect in effects_of(numbered, place, batch_index)]


def _act(*, before: str | None, after: str, **more: Any) -> ActOnMessage:
    given = {
        "id": 1,
        "subscription_id": 1,
        "kind": "skip",
        "who": "al",
        "finished_ms": 1,
        "before": before,
        "after": after,
        "how": None,
        "position": None,
        "inside": None,
        "remaining": None,
        "undo_of": None,
        "letter_topic": None,
    }
    return ActOnMessage(**{**given, **more})
