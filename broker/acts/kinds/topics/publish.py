"""Publish one message to a topic."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.acts.kinds.base import ActContext, ActKind, Plan, Scope
from broker.acts.kinds.parameters import ActInvalid
from broker.acts.kinds.topics.message import OF_MESSAGE, NewMessage
from broker.acts.kinds.topics.publish_once import message_in, note_end, producer_name, send, stored
from broker.core.counted import counted
from broker.core.errors import (
    IncompatibleSchema,
    MessageTooLarge,
    SchemaNotFound,
    SendOutcomeUnknown,
    TopicTerminated,
)
from broker.core.schemas.payload import check_payload, is_readable
from broker.core.topic_name import TopicName
from broker.producers.key_hash import message_slot

if TYPE_CHECKING:
    from broker.core.position import Position
    from broker.core.schemas.schema import SchemaDefinition
    from broker.topics.topic import Topic

__all__ = ["Publish"]

_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    topic: Topic
    partition: int | None  # None if the topic is not partitioned
    schema: SchemaDefinition | None
    schema_version: bytes


class Publish(ActKind[NewMessage]):
    """Publish one message."""

    name = "publish"
    summary = "Publish one message to a topic. The act log keeps its digest and its id."
    no_undo = "it cannot be undone: consumers get the message like any other"
    scope = Scope.TOPIC
    parameters = NewMessage
    of_message = OF_MESSAGE

    def message_of(self, given: NewMessage) -> bytes:
        if given.encoding == "json" and not given.value and not given.null_value:
            raise ActInvalid("value is empty, which is not JSON")
        return given.to_entry()

    async def plan(self, context: ActContext, given: NewMessage) -> Plan:
        target = await self._target(context, given, await self._partition(context, given))
        return Plan(shown=_shown(context, given, target))

    async def apply(self, context: ActContext, given: NewMessage) -> Mapping[str, Any]:
        planned = context.act.plan or {}
        noted = context.act.progress
        for _ in range(_ATTEMPTS):
            if noted is not None and (position := await stored(context, noted)) is not None:
                return _receipt(planned, position)
            target = await self._target(context, given, planned["pinned"]["partition"])
            noted = await note_end(context, target.topic)
            try:
                position = await send(context, given, target.topic, target.schema, target.schema_version)
            except SendOutcomeUnknown:
                continue
            return _receipt(planned, position)
        raise SendOutcomeUnknown(
            f"{context.act.topic_name} did not confirm the message, which may be stored: look for the producer"
            f" {producer_name(context)} among its messages"
        )

    async def _partition(self, context: ActContext, given: NewMessage) -> int | None:
        name = TopicName.parse(context.act.topic_name)
        if name.domain != "persistent":
            raise ActInvalid(f"{name} keeps no messages: publish to it with a client")
        partitions = await context.opener.partition_count(name, create=False)
        if given.partition is not None and given.partition >= partitions:
            has = counted(partitions, "partition", "partitions") if partitions else "no partitions"
            raise ActInvalid(f"there is no partition {given.partition}: {name} has {has}")
        if not partitions:
            return None
        if given.partition is not None:
            return given.partition
        slot = message_slot(message_in(context))
        return (context.act.act_id if slot is None else slot) % partitions

    async def _target(self, context: ActContext, given: NewMessage, partition: int | None) -> _Target:
        name = TopicName.parse(context.act.topic_name)
        topic = await context.topics.open(
            name if partition is None else name.with_partition(partition), create=False
        )
        if topic.is_terminated:
            raise TopicTerminated(f"{topic.name} is terminated: it takes no more messages")
        await topic.quota.require_room()
        message = message_in(context)
        payload = message.payload
        limit = min(
            topic.policies.max_message_bytes or context.max_published_bytes, context.max_published_bytes
        )
        if len(payload) > limit:
            raise MessageTooLarge(f"the payload has {len(payload)} bytes: {topic.name} takes at most {limit}")
        try:
            schema, version = await context.tools.schemas.get(topic.name.base, None)
        except SchemaNotFound:
            return _Target(topic=topic, partition=partition, schema=None, schema_version=b"")
        try:
            if not message.null_value:
                check_payload(schema, payload)
        except IncompatibleSchema as error:
            raise IncompatibleSchema(f"the payload does not match the topic's schema: {error}") from error
        return _Target(topic=topic, partition=partition, schema=schema, schema_version=version)


def _shown(context: ActContext, given: NewMessage, target: _Target) -> dict[str, Any]:
    message = message_in(context)
    payload = message.payload
    content = "without a value" if message.null_value else f"of {counted(len(payload), 'byte', 'bytes')}"
    subscriptions = [each for each in target.topic.subscriptions.values() if each.is_durable]
    notes = [Publish.no_undo]
    if target.schema is not None and not message.null_value and not is_readable(target.schema):
        kind = target.schema.type.name.lower().replace("_", " ")
        notes.append(
            f"the topic has a schema of type {kind}: the broker does not check the payload against it"
        )
    if given.deliver_after_ms is not None or given.deliver_at_ms is not None:
        notes.append(
            "only Shared and Key_Shared subscriptions wait for the delivery time; others get it at once"
        )
    return {
        "words": [
            f"1 message {content} is stored in {target.topic.name}",
            f"{counted(len(subscriptions), 'subscription gets', 'subscriptions get')} it",
        ],
        "payload_bytes": len(payload),
        "payload_sha256": None if message.null_value else hashlib.sha256(payload).hexdigest(),
        "topic": target.topic.name.full,
        "pinned": {"partition": target.partition},
        "replayed_messages": 0,
        "skipped_messages": 0,
        "consumers_closed": 0,
        "consumers_kept": target.topic.consumers_connected(),
        "notes": notes,
    }


def _receipt(planned: Mapping[str, Any], position: Position) -> dict[str, Any]:
    return {
        **planned,
        "words": [f"the message is stored in {planned['topic']} as {position}", *planned["words"][1:]],
        "message_id": str(position),
    }
