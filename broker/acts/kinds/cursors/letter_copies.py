"""Make and publish letters. A letter is a copy of a message for a dead-letter topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.acts.kinds.base import ActContext
from broker.acts.kinds.cursors.change import Target
from broker.acts.kinds.parameters import ActInvalid
from broker.core.entry import FLAG_CHUNK
from broker.log.reader import GapInLog
from broker.producers.internal_producer import InternalProducer
from broker.producers.key_hash import message_slot
from vela.wire.entry import OutgoingMessage, decode_messages, parse_header
from vela.wire.errors import EntryCorrupt
from vela.wire.letters import dead_letter_properties
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from broker.subscription.subscription import Subscription
    from vela.wire.entry import Message

__all__ = ["copies_of", "publish"]


async def copies_of(
    context: ActContext, subscription: Subscription, target: Target
) -> Sequence[tuple[Message, dict[str, str]]]:
    """Return the messages to copy, each with the properties of its copy. Raises ActInvalid if no copy can be made."""
    position = target.position
    left = subscription.cursor.remaining_of(position)
    if left == 0:
        raise ActInvalid(f"{position} is already acknowledged, so there is nothing to copy")
    try:
        found = await subscription.reader.read_chosen([position])
    except GapInLog as error:
        raise ActInvalid(f"{position} cannot be read: {error}") from error
    if not found:
        raise ActInvalid(f"{position} is not stored any more, so it cannot be copied")
    (entry,) = found
    if entry.flags & FLAG_CHUNK:
        raise ActInvalid(
            f"{position} is one chunk of a large message, and a copy of it would be of no use: skip the message instead"
        )
    try:
        if parse_header(entry.data).encrypted:
            raise ActInvalid(
                f"{position} was encrypted by its producer, so the broker cannot copy it: let a consumer with the key"
                " do it, or skip the message"
            )
        messages = decode_messages(entry.data, max_message_bytes=context.max_message_bytes)
    except EntryCorrupt as error:
        raise ActInvalid(f"{position} cannot be read ({error}), so it cannot be copied: skip it") from error
    wanted = [
        message
        for message in messages
        if _is_set(left, message)
        and not (target.remaining is not None and _is_set(target.remaining, message))
    ]
    if not wanted:
        raise ActInvalid(f"the message of {position} is already acknowledged, so there is nothing to copy")
    topic = subscription.log.name
    partition = -1 if topic.partition is None else topic.partition
    return [
        (
            message,
            dead_letter_properties(
                message.properties,
                topic=topic.full,
                message_id=MessageId(*position, partition, message.batch_index, message.batch_size),
                subscription=subscription.name,
            ),
        )
        for message in wanted
    ]


def _is_set(members: int | None, message: Message) -> bool:
    return members is None or bool(members >> max(message.batch_index, 0) & 1)


async def publish(
    context: ActContext, topic: str, letters: Sequence[tuple[Message, dict[str, str]]]
) -> list[str]:
    """Publish the letters and return their ids. If this raises BrokerError, some letters may already be stored."""
    producer = await InternalProducer.open(context.opener, topic, name=f"vela-letter-{context.act.act_id}")
    now_ms = context.clock.now_ms()
    try:
        receipts = await asyncio.gather(
            *(
                producer.publish(
                    OutgoingMessage.copy_of(message, properties),
                    publish_time_ms=now_ms,
                    max_message_bytes=context.max_published_bytes,
                    key_hash=message_slot(message),
                )
                for message, properties in letters
            )
        )
    finally:
        producer.detach()
    return [f"{receipt.ledger_id}:{receipt.entry_id}" for receipt in receipts]
