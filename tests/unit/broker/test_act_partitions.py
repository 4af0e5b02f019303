"""Acts on several partitions: their merged plans and results, and the parameter that chooses partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from broker.acts.kinds.base import ActContext, Part, PartlyDone
from broker.acts.kinds.direct import DirectKind, Effect
from broker.acts.kinds.drift import TYPED_ABOVE_MESSAGES, Standing
from broker.acts.kinds.merged import merged_plan, merged_result
from broker.acts.kinds.parameters import ActInvalid, NoParameters
from broker.acts.kinds.partition_choice import chosen_partitions
from tests.support.plans import a_partitioned_plan, a_plan


def test_a_plan_has_totals_and_each_partition() -> None:
    plan = a_partitioned_plan([4, 0, 10])
    assert [part["partition"] for part in plan["partitions"]] == [0, 1, 2]
    assert plan["current"] == {"backlog_messages": 36, "acked_messages": 15}
    assert plan["target"] == {"backlog_messages": 50}
    totals = ("replayed_messages", "skipped_messages", "in_flight_messages", "consumers_closed")
    assert [plan[name] for name in totals] == [14, 0, 3, 3]
    assert plan["notes"] == ["the oldest message kept is 3 s younger than the requested time"]


def test_the_allowed_drift_is_of_the_whole_act_and_needs_no_typed_name() -> None:
    small = a_partitioned_plan([4, 0, 10])
    assert (small["drift"]["messages"], small["allowed_drift_messages"]) == (180, 180)
    large = a_partitioned_plan([3000, 3000, 3950])
    assert large["allowed_drift_messages"] == TYPED_ABOVE_MESSAGES - 9950
    still = merged_plan([a_plan(partition=0, drift=None, allowed_drift_messages=0)])
    assert (still["drift"], still["allowed_drift_messages"]) == (None, 0)


def test_words_about_one_partition_name_it() -> None:
    plan = merged_plan(
        [
            {**a_plan(notes=["both", "only here"]), "partition": 0},
            {**a_plan(notes=["both"]), "partition": 1},
            {"partition": 2, "left_out": "s is already paused"},
        ]
    )
    assert plan["notes"] == ["both", "partition 0: only here", "partition 2: s is already paused"]
    assert plan["replayed_messages"] == 8
    assert len(plan["partitions"]) == 3


def test_a_result_counts_only_what_was_done() -> None:
    result = merged_result(
        [
            {"partition": 0, "replayed_messages": 3, "skipped_messages": 1},
            {"partition": 1, "error": "the topic moved"},
        ]
    )
    assert (result["replayed_messages"], result["skipped_messages"]) == (3, 1)
    assert result["partitions"][1] == {"partition": 1, "error": "the topic moved"}


@pytest.mark.parametrize(
    ("text", "chosen"), [("0", (0,)), ("2,0,2", (0, 2)), (" 5 - 7 , 1", (1, 5, 6, 7)), (None, None)]
)
def test_partitions_are_numbers_and_ranges(text: str | None, chosen: tuple[int, ...] | None) -> None:
    assert chosen_partitions({} if text is None else {"partitions": text}) == chosen


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "-1",
        "1-",
        "a",
        "1;2",
        "3-1",
        "123456",
        "1," * 3000,
        "0-99999",
        "0-9999," * 400 + "1",
        5,
        [1],
        True,
        "\0",
    ],
)
def test_other_texts_are_refused(text: object) -> None:
    with pytest.raises(ActInvalid, match="the parameter partitions"):
        chosen_partitions({"partitions": text})


def _part(number: int, **plan: Any) -> Part:
    act = SimpleNamespace(topic_name=f"p-{number}", undo_of=None, plan={"skipped_messages": 0, **plan})
    return Part(partition=number, context=cast(ActContext, SimpleNamespace(act=act, begin=_begun)))


async def _begun() -> None:
    """Stand in for the record that an act has begun."""


class _RefusedOnOne(DirectKind[NoParameters]):
    """An act that does nothing, and that the database refuses on partition 1."""

    name = "refused_on_one"
    summary = "For this test."
    parameters = NoParameters

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        return Effect(words=("it is done",))

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        if context.act.topic_name == "p-1":
            raise psycopg.errors.CheckViolation("no room")


async def test_a_database_that_refuses_one_partition_leaves_a_record_of_the_others() -> None:
    parts = [_part(number) for number in range(3)]
    with pytest.raises(PartlyDone, match="partition 1: the database refused it: no room") as raised:
        await _RefusedOnOne().apply_parts(_part(-1).context, parts, NoParameters())
    done = raised.value.result["partitions"]
    assert ["error" in each for each in done] == [False, True, True]


class _Deletion(DirectKind[NoParameters]):
    """An act that deletes the messages of a partition while a producer continues to publish."""

    name = "deletion"
    summary = "For this test."
    parameters = NoParameters

    def __init__(self) -> None:
        self.published = 5
        self.done: list[str] = []

    async def measure(self, context: ActContext, given: NoParameters) -> Effect:
        standing = Standing(acked_messages=0, published_messages=self.published, count=1, cursors="c")
        return Effect(words=("it is deleted",), skipped_messages=self.published, standing=standing)

    async def carry_out(self, context: ActContext, given: NoParameters) -> None:
        self.done.append(context.act.topic_name)
        if len(self.done) == 2:
            self.published += 3


async def test_a_deletion_refuses_when_more_messages_than_allowed_were_published_meanwhile() -> None:
    standing = Standing(acked_messages=0, published_messages=5, count=1, cursors="c").to_json()
    parts = [_part(number, standing=standing) for number in range(4)]
    deletion = _Deletion()
    with pytest.raises(PartlyDone, match="partition 2: 3 messages published after the plan") as raised:
        await deletion.apply_parts(_part(-1, allowed_drift_messages=2).context, parts, NoParameters())
    assert deletion.done == ["p-0", "p-1"]
    assert ["error" in each for each in raised.value.result["partitions"]] == [False, False, True, True]

    deletion = _Deletion()
    result = await deletion.apply_parts(_part(-1, allowed_drift_messages=6).context, parts, NoParameters())
    assert [each["skipped_messages"] for each in result["partitions"]] == [5, 5, 8, 8]
    assert result["published_meanwhile_messages"] == 6
