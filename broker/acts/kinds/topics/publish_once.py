"""Store the message of a `publish` act at most once, even if the broker dies.

After a crash or a lost receipt, the broker looks for the act's producer name in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.acts.kinds.parameters import ActInvalid
from broker.acts.kinds.topics.message import MOST_PAYLOAD_BYTES
from broker.core.errors import SendOutcomeUnknown
from broker.core.position import Position
from broker.producers.internal_producer import InternalProducer
from broker.producers.key_hash import message_slot
from vela.wire.entry import OutgoingMessage, decode_messages, parse_header
from vela.wire.errors import EntryCorrupt

if TYPE_CHECKING:
    from broker.acts.kinds.base import ActContext
    from broker.acts.kinds.topics.message import NewMessage
    from broker.core.schemas.schema import SchemaDefinition
    from broker.topics.topic import Topic
    from vela.wire.entry import Message

__all__ = ["message_in", "note_end", "producer_name", "send", "stored"]

_PATIENCE_S: Final = 2.0
_LOOK_EVERY_S: Final = 0.002


async def note_end(context: ActContext, topic: Topic) -> Mapping[str, Any]:
    """Record where the log ends, and return the record. Call this function before `send`."""
    ledgers = topic.log.ledgers
    noted = {
        "topic": topic.name.full,
        "after": str(ledgers.last_position()),
        "entries": ledgers.total_entries,
    }
    await context.report(noted)
    return noted


async def send(
    context: ActContext, given: NewMessage, topic: Topic, schema: SchemaDefinition | None, version: bytes
) -> Position:
    """Publish the message and return its position.

    Raises SendOutcomeUnknown if the message may have been stored. Any other BrokerError means that nothing was stored.
    """
    producer = await InternalProducer.open(
        context.opener,
        topic.name,
        name=producer_name(context),
        create_topic=False,
        schema=schema,
        reopen_s=_PATIENCE_S,
    )
    message, now_ms = message_in(context), context.clock.now_ms()
    later_ms = 0 if given.deliver_after_ms is None else now_ms + given.deliver_after_ms
    try:
        receipt = await producer.publish(
            OutgoingMessage.copy_of(message, message.properties),
            publish_time_ms=now_ms,
            max_message_bytes=context.max_published_bytes,
            key_hash=message_slot(message),
            deliver_at_ms=given.deliver_at_ms or later_ms,
            schema_version=version,
        )
    finally:
        producer.detach()
    return Position(receipt.ledger_id, receipt.entry_id)


async def stored(context: ActContext, noted: Mapping[str, Any]) -> Position | None:
    """Return the position of the message, or None if no earlier attempt stored the message.

    Raises SendOutcomeUnknown if the topic may have trimmed the message, or if sends are still under way.
    """
    topic = await context.topics.open_named(noted["topic"])
    await _until_settled(topic)
    ledgers = topic.log.ledgers
    looked_at = noted["entries"]  # Number of entries up to the recorded end, including trimmed entries
    position = ledgers.next_after(Position.parse(noted["after"]))
    while True:
        entries = await topic.reader.read_ahead(position)
        if ledgers.entries_through(position) - ledgers.contains(position) > looked_at:
            raise SendOutcomeUnknown(
                f"{topic.name} has trimmed entries that may have included the message: it may or may not be stored"
            )
        if not entries:
            return None
        for entry in entries:
            position = Position(entry.ledger_id, entry.entry_id)
            if _producer_of(entry.data) == producer_name(context):
                return position
        looked_at += len(entries)
        position = ledgers.next_after(position)


async def _until_settled(topic: Topic) -> None:
    """Wait until no send is under way. A producer may have been closed before its send was stored."""
    log = topic.log
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while log.is_open and (log.has_sends() or log.is_taken or log.in_flight is not None):  # noqa: ASYNC110
                # Polling is cheap enough for an act. An event would slow down every append.
                await asyncio.sleep(_LOOK_EVERY_S)
    except TimeoutError:
        raise SendOutcomeUnknown(f"{topic.name} still has sends under way after {_PATIENCE_S:g} s") from None


def message_in(context: ActContext) -> Message:
    """Return the act's message. Raises ActInvalid if the act no longer has its message."""
    if context.act.message is None:
        raise ActInvalid("the act no longer has its message: plan it again")
    (message,) = decode_messages(context.act.message, max_message_bytes=MOST_PAYLOAD_BYTES)
    return message


def producer_name(context: ActContext) -> str:
    """Return the name under which the act publishes."""
    return f"vela-act-{context.act.act_id}"


def _producer_of(data: bytes) -> str:
    try:
        return parse_header(data).producer_name
    except EntryCorrupt:
        return ""
