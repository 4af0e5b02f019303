"""Redrive the messages of a dead-letter topic.

Each message is published before it is acknowledged. After a failure, up to 100 messages may be published twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from broker.acts.kinds.base import ActContext, ActKind, Plan
from broker.acts.kinds.cursors.message_place import find_message
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn, Rule
from broker.acts.kinds.subscriptions.redrive_scan import REDRIVES, Found, Selection, Tally, scan
from broker.acts.kinds.subscriptions.redrive_schemas import SchemaVersions
from broker.core.counted import counted
from broker.core.errors import BrokerError, InvalidTopicName, TopicNotFound
from broker.core.position import Position
from broker.core.topic_name import TopicName
from broker.producers.internal_producer import InternalProducer
from broker.subscription.internal_ack import ack_for_broker
from vela.wire.entry import OutgoingMessage

__all__ = ["Redrive", "RedriveWhat"]

PIECE_MESSAGES: Final = 100
_PLAN_ENTRIES: Final = 10_000
# Without these properties, consumers of the target topic count retries from 0.
_DROPPED_PROPERTIES: Final = ("RECONSUMETIMES", "DELAY_TIME")
_DONE: Final = "published again and acknowledged in the dead-letter topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveWhat:
    """The messages to redrive, their target topic, and the rate."""

    to_topic: Annotated[
        str | None,
        Rule("target topic; by default each message goes to the topic in its property REAL_TOPIC"),
    ] = None
    id: Annotated[str | None, Rule("only this message: a message id of the dead-letter topic")] = None
    key: Annotated[str | None, Rule("only messages with this key")] = None
    property_name: Annotated[str | None, Rule("only messages that have this property")] = None
    property_value: Annotated[str | None, Rule("only messages whose property has this value")] = None
    after_ms: Annotated[
        int | None, Rule("only messages stored at or after this time, ms since 1970", least=0)
    ] = None
    before_ms: Annotated[
        int | None, Rule("only messages stored before this time, ms since 1970", least=0)
    ] = None
    most: Annotated[int, Rule("maximum number of messages", least=1, most=10_000_000)] = 10_000
    rate: Annotated[int, Rule("messages a second; 0: as fast as possible", least=0, most=1_000_000)] = 0
    max_redrives: Annotated[
        int,
        Rule(
            f"skip messages that were already redriven this many times or more (property {REDRIVES})",
            least=1,
            most=1000,
        ),
    ] = 3

    def __post_init__(self) -> None:
        if self.property_value is not None and self.property_name is None:
            raise ActInvalid("property_value needs property_name")
        if self.to_topic is not None:
            try:
                TopicName.parse(self.to_topic)
            except InvalidTopicName as error:
                raise ActInvalid(str(error)) from error


class Redrive(ActKind[RedriveWhat]):
    """Redrive a subscription's unacked messages that are not in flight."""

    name = "redrive"
    summary = (
        "Publish the messages of a dead-letter topic to their original topics, or to one topic that you name, and"
        " acknowledge them."
    )
    is_long = True
    no_undo = "it cannot be undone: consumers of the target topics get the messages as new ones"
    parameters = RedriveWhat

    def other_topics(self, given: RedriveWhat) -> tuple[str, ...]:
        return () if given.to_topic is None else (TopicName.parse(given.to_topic).full,)

    def other_topics_of_plan(self, planned: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(planned.get("targets", {}))

    async def plan(self, context: ActContext, given: RedriveWhat) -> Plan:
        subscription = await context.subscription()
        if given.to_topic is not None and not await _exists(context, given.to_topic):
            raise NothingToActOn(
                f"{given.to_topic} does not exist, and a redrive does not create topics: create it first"
            )
        selection = await _selection(given, context)
        through = subscription.log.ledgers.last_position()
        tally = Tally()
        async for _ in scan(context.subscription, selection, through, tally, entries=_PLAN_ENTRIES):
            if tally.matched >= given.most:
                break
        notes = [self.no_undo]
        notes += [
            f"{target} does not exist, and a redrive does not create topics: it fails at the first message for that"
            " topic"
            for target in sorted(tally.targets)
            if not await _exists(context, target)
        ]
        if tally.entries >= _PLAN_ENTRIES:
            notes.append(
                f"the plan has read only the first {_PLAN_ENTRIES} entries; the act reads all of them"
            )
        return Plan(
            shown={
                "words": [
                    f"{counted(tally.matched, 'message is', 'messages are')} {_DONE}",
                    *tally.words(),
                ],
                "targets": dict(tally.targets),
                "redriven_messages": tally.matched,
                "in_flight_messages": tally.left["in_flight"],
                "pinned": {"through": str(through)},
                "replayed_messages": 0,
                "skipped_messages": 0,
                "consumers_closed": 0,
                "consumers_kept": len(subscription.consumers),
                "notes": notes,
            }
        )

    async def apply(self, context: ActContext, given: RedriveWhat) -> Mapping[str, Any]:
        progress = context.act.progress or {}
        work = _Work(context, given, redriven=Counter(progress.get("targets", {})))
        try:
            return await work.run()
        finally:
            await work.close()


class _Work:
    def __init__(self, context: ActContext, given: RedriveWhat, *, redriven: Counter[str]) -> None:
        self._context = context
        self._given = given
        self._redriven = redriven  # Number of messages per target topic
        self._producers: dict[str, InternalProducer] = {}
        self._claimed: list[Found] = []
        self._versions = SchemaVersions(context.tools.schemas, context.act.topic_name)

    async def run(self) -> Mapping[str, Any]:
        context, given = self._context, self._given
        through = Position.parse((context.act.plan or {})["pinned"]["through"])
        tally = Tally()
        piece: list[Found] = []
        size = PIECE_MESSAGES if not given.rate else min(PIECE_MESSAGES, max(1, given.rate // 10))
        selection = replace(await _selection(given, context), namespaces=_planned_namespaces(context, given))
        # If an earlier broker has already redriven `most` messages for this act, read no entries.
        entries = 0 if self._redriven.total() >= given.most else None
        async for found in scan(context.subscription, selection, through, tally, entries=entries):
            piece.append(found)
            self._claim(found)
            if len(piece) >= size or self._redriven.total() + len(piece) >= given.most:
                await self._send(piece)
                piece = []
            if self._redriven.total() >= given.most:
                break
        await self._send(piece)
        total = self._redriven.total()
        return {
            "words": [
                f"{counted(total, 'message was', 'messages were')} {_DONE}",
                *tally.words(),
            ],
            **self._counts(),
            "in_flight_messages": tally.left["in_flight"],
            "acked_meanwhile_messages": _acked_meanwhile(context.act.plan or {}, total, tally),
            "replayed_messages": 0,
            "skipped_messages": 0,
            "consumers_closed": 0,
        }

    def _counts(self) -> dict[str, Any]:
        return {"redriven_messages": self._redriven.total(), "targets": dict(self._redriven)}

    def _claim(self, found: Found) -> None:
        self._claimed.append(found)
        found.subscription.redriving |= {found.place}

    def _let_go(self) -> None:
        for found in self._claimed:
            found.subscription.redriving -= {found.place}
        self._claimed.clear()

    async def close(self) -> None:
        """Release the reserved messages and close the producers."""
        self._let_go()
        for producer in self._producers.values():
            producer.detach()

    async def _send(self, piece: list[Found]) -> None:
        if not piece:
            return
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        for target in {found.target for found in piece} - self._producers.keys():
            self._producers[target] = await self._open(target)
        versions = [
            await self._versions.of_letter(found.message.schema_version, found.target) for found in piece
        ]
        now_ms = self._context.clock.now_ms()
        outcomes = await asyncio.gather(
            *(self._publish(*each, now_ms) for each in zip(piece, versions, strict=True)),
            return_exceptions=True,
        )
        stored = [
            found
            for found, outcome in zip(piece, outcomes, strict=True)
            if not isinstance(outcome, BaseException)
        ]
        # Get the subscription again, because its topic may have been reloaded since the scan.
        await ack_for_broker(
            await self._context.subscription(), [(each.position, each.without) for each in stored]
        )
        self._let_go()
        self._redriven.update(each.target for each in stored)
        await self._context.report(self._counts())
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        if self._given.rate:
            await asyncio.sleep(max(0.0, len(piece) / self._given.rate - (loop.time() - started_s)))

    async def _open(self, target: str) -> InternalProducer:
        try:
            return await InternalProducer.open(
                self._context.opener,
                target,
                name=f"vela-redrive-{self._context.act.act_id}",
                create_topic=False,
            )
        except BrokerError as error:
            raise ActInvalid(f"cannot publish to {target}: {error}") from error

    async def _publish(self, found: Found, schema_version: bytes, now_ms: int) -> None:
        message = found.message
        properties = {
            name: value for name, value in message.properties.items() if name not in _DROPPED_PROPERTIES
        }
        properties[REDRIVES] = str(found.redrives + 1)
        await self._producers[found.target].publish(
            OutgoingMessage.copy_of(message, properties),
            publish_time_ms=now_ms,
            max_message_bytes=self._context.max_published_bytes,
            key_hash=found.key_hash,
            schema_version=schema_version,
        )


def _planned_namespaces(context: ActContext, given: RedriveWhat) -> frozenset[str]:
    """Return the namespaces that the redrive may publish to.

    A dead letter can name any target topic, but the operator's rights were checked only for these namespaces.
    """
    named = [context.act.topic_name, *(context.act.plan or {}).get("targets", ())]
    if given.to_topic is not None:
        named.append(given.to_topic)
    return frozenset(TopicName.parse(name).namespace_name for name in named)


def _acked_meanwhile(planned: Mapping[str, Any], redriven: int, tally: Tally) -> int:
    fewer = max(0, int(planned["redriven_messages"]) - redriven)
    delivered_since = max(0, tally.left["in_flight"] - int(planned["in_flight_messages"]))
    return fewer - min(fewer, delivered_since)


async def _exists(context: ActContext, topic: str) -> bool:
    try:
        await context.opener.partition_count(TopicName.parse(topic), create=False)
    except TopicNotFound:
        return False
    return True


async def _selection(given: RedriveWhat, context: ActContext) -> Selection:
    place = None if given.id is None else await find_message(context.pool, await context.topic(), given.id)
    if place is not None and not place.is_stored:
        raise NothingToActOn(f"{given.id} is not stored: there is nothing to redrive")
    return Selection(
        position=None if place is None else place.position,
        index=None if place is None else place.index,
        to_topic=None if given.to_topic is None else TopicName.parse(given.to_topic).full,
        own_topic=context.act.topic_name,
        key=given.key,
        property_name=given.property_name,
        property_value=given.property_value,
        after_ms=given.after_ms,
        before_ms=given.before_ms,
        max_redrives=given.max_redrives,
        max_message_bytes=context.max_message_bytes,
    )
