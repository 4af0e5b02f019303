"""Split an act by partition. An act is a change that the broker plans and then applies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from broker.acts.kinds.base import ActContext, ActKind, Part, Plan, Scope
from broker.acts.kinds.cursors.message_place import read_message_id
from broker.acts.kinds.merged import merged_plan
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn
from broker.acts.kinds.partition_choice import MOST_PARTS, PARTITIONS, chosen_partitions
from broker.acts.kinds.parts import name_error, part_json
from broker.core.errors import BrokerError
from broker.core.topic_name import TopicName
from broker.storage.acts import parts as store
from broker.storage.acts.parts import RecordedPart
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as topic_store

__all__ = ["parts_of", "plan_parts", "recorded_parts"]

P = TypeVar("P")


async def parts_of(kind: ActKind[P], context: ActContext, given: P) -> list[Part] | None:
    """Return the partitions that an act concerns, or None if the act is not split by partition.

    Raises ActInvalid if the act cannot be done on the chosen partitions, or if there is nothing to undo. Raises
    TopicNotFound if the topic does not exist.
    """
    act = context.act
    is_of_namespace = kind.scope in (Scope.NAMESPACE, Scope.NEW_NAMESPACE, Scope.TENANT)
    if is_of_namespace or (kind.scope is Scope.TOPIC and not kind.takes_partitions):
        return None
    topic = TopicName.parse(act.topic_name)
    count = 0
    if act.subscription_id is None:
        count = await context.topics.partition_count(topic, create=False)
    chosen = chosen_partitions(act.parameters)
    if not count:
        if chosen is not None:
            raise ActInvalid(f"{topic} is not partitioned: leave out the parameter {PARTITIONS}")
        return None
    if act.is_apply:
        planned = (act.plan or {}).get(PARTITIONS, ())
        return [_planned_part(context, topic, each) for each in planned if "left_out" not in each]
    if act.undo_of is not None:
        return await _to_undo(context, topic, act.undo_of)
    is_one = kind.takes_partitions and chosen is not None and len(chosen) == 1
    if not is_one and (reason := kind.why_one_partition(given)):
        raise ActInvalid(
            f"{reason}: choose one partition, {topic}-partition-0 to {topic}-partition-{count - 1}"
        )
    if chosen is not None and chosen[-1] >= count:
        raise ActInvalid(f"{topic} has no partition {chosen[-1]}: its last one is {count - 1}")
    message_id = kind.message_id(given)
    if message_id is not None:
        chosen = (await _partition_of(context, topic, count, chosen, message_id),)
    partitions = range(count) if chosen is None else chosen
    if len(partitions) > MOST_PARTS:
        raise ActInvalid(
            f"{len(partitions)} partitions are too many for one act: name at most {MOST_PARTS} in the"
            f" parameter {PARTITIONS}"
        )
    return [_part(context, topic, partition) for partition in partitions]


async def plan_parts(kind: ActKind[P], parts: Sequence[Part], given: P) -> Plan:
    """Plan an act on several partitions.

    If planning a partition raises an error listed in `kind.leaves_out`, the act skips the partition. Raises the first
    of these errors if no partition remains.
    """
    planned: list[dict[str, Any]] = []
    first: ActInvalid | None = None
    for part in parts:
        try:
            plan = await kind.plan(part.context, given)
        except kind.leaves_out as error:
            first = first or error
            planned.append(part_json(part, {"left_out": str(error)}))
        except BrokerError as error:
            name_error(part, error)
            raise
        else:
            planned.append(part_json(part, plan.shown, cursor_version=plan.cursor_version))
        await asyncio.sleep(0)  # Let the broker serve clients
    if first is not None and all("left_out" in each for each in planned):
        raise first
    return Plan(shown=merged_plan(planned))


def recorded_parts(parts: Sequence[Part], result: Mapping[str, Any]) -> list[RecordedPart]:
    """Return a record of each partition on which the act succeeded."""
    of_partition = {each["partition"]: each for each in result[PARTITIONS]}
    return [
        RecordedPart(
            topic=part.context.act.topic_name,
            plan=json.dumps(dict(part.context.act.plan or {})),
            result=json.dumps(of_partition[part.partition]),
            cursor_version=part.context.act.cursor_version,
            undo_of=part.context.act.undo_of,
        )
        for part in parts
        if "error" not in of_partition[part.partition]
    ]


def _part(context: ActContext, topic: TopicName, partition: int) -> Part:
    return _planned_part(context, topic, {"partition": partition})


def _planned_part(context: ActContext, topic: TopicName, planned: Mapping[str, Any]) -> Part:
    act = replace(
        context.act,
        topic_id=None,
        topic_name=topic.with_partition(planned["partition"]).full,
        plan=planned if context.act.is_apply else None,
        cursor_version=planned.get("cursor_version"),
        undo_of=planned.get("undo_of"),
    )
    return Part(partition=planned["partition"], context=replace(context, act=act))


async def _to_undo(context: ActContext, topic: TopicName, undo_of: int) -> list[Part]:
    acts = await repeat_until_done(
        context.pool, lambda c: store.parts_of(c, undo_of), what="reading the parts of an act"
    )
    if not acts:
        raise ActInvalid(f"act {undo_of} did not move a cursor, so there is nothing to undo")
    parts = [
        _planned_part(context, topic, {"partition": TopicName.parse(name).partition, "undo_of": act_id})
        for name, act_id in acts.items()
    ]
    return sorted(parts, key=lambda part: part.partition)


async def _partition_of(
    context: ActContext, topic: TopicName, count: int, chosen: tuple[int, ...] | None, text: str
) -> int:
    message_id = read_message_id(text)
    partition: int | None = message_id.partition
    if message_id.partition < 0:
        owner = await repeat_until_done(
            context.pool,
            lambda c: topic_store.topic_of_ledger(c, message_id.ledger_id),
            what="looking for a ledger",
        )
        whose = None if owner is None else TopicName.parse(owner)
        partition = whose.partition if whose is not None and whose.base == topic.full else None
        if partition is None:
            raise NothingToActOn(
                f"message id {text!r}: no partition of {topic} has ledger {message_id.ledger_id}; write the id as"
                " ledger:entry:partition if its ledger was trimmed"
            )
    if partition is None or partition >= count:
        raise NothingToActOn(
            f"message id {text!r}: {topic} has no partition {partition}: its last one is {count - 1}"
        )
    if chosen is not None and partition not in chosen:
        raise ActInvalid(
            f"message id {text!r} is in partition {partition}, which the parameter {PARTITIONS} does not name"
        )
    return partition
