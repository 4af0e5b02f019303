"""Find a message in a topic's log by the id that an operator typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.acts.kinds.cursors.change import with_index
from broker.acts.kinds.parameters import ActInvalid, NothingToActOn
from broker.core.counted import counted
from broker.core.position import Position
from broker.storage.pool import repeat_until_done
from broker.storage.topics import topics as topic_store
from vela.wire.ack_set import full
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from broker.storage.pool import ConnectionPool
    from broker.topics.topic import Topic

__all__ = ["MessagePlace", "find_message", "read_message_id"]

_SHAPE: Final = re.compile(r"(0|[1-9][0-9]*):(0|[1-9][0-9]*)(:(-1|0|[1-9][0-9]*)){0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlace:
    """The place where a message is, or was."""

    position: Position
    index: int | None  # Index in the batch, or None for the whole entry
    messages: int  # Number of messages in the entry, or 0 if the entry is not stored
    is_stored: bool

    @property
    def everything(self) -> int:
        """The bitset of the entry's messages, with every bit set to 1."""
        return full(self.messages)


async def find_message(pool: ConnectionPool, topic: Topic, text: str) -> MessagePlace:
    """Find a message by `ledger:entry[:partition[:index]]`. Partition -1 is accepted for every topic.

    Raises ActInvalid if the text is not a message id, or if it names another partition. Raises NothingToActOn if the
    ledger is not from this topic, or if the entry has no message with this index.
    """
    position, index = _read(topic, text)
    ledgers = topic.log.ledgers
    if ledgers.get(position.ledger_id) is None:
        await _require_own(pool, topic, text, position.ledger_id)
    messages = await with_index(topic.reader, lambda: topic.log.index.require_messages_in(position))
    # The entry may have been trimmed during an `await`.
    if not ledgers.contains(position):
        return MessagePlace(position=position, index=index, messages=0, is_stored=False)
    if index is not None and index >= messages:
        has = counted(messages, "message", "messages")
        raise NothingToActOn(f"message id {text!r}: {position} has {has}, so there is no index {index}")
    return MessagePlace(
        position=position, index=index if messages > 1 else None, messages=messages, is_stored=True
    )


def read_message_id(text: str) -> MessageId:
    """Read a message id that an operator typed. Raises ActInvalid if the id is wrong."""
    try:
        return MessageId.parse(text.strip())
    except InvalidMessageId as error:
        if _SHAPE.fullmatch(text.strip()):
            raise ActInvalid(
                f"message id {text!r}: a number is too large; ledger and entry are at most {2**63 - 1}, partition and"
                f" index at most {2**31 - 1}"
            ) from error
        raise ActInvalid(
            f"message id {text!r}: write it as ledger:entry, or ledger:entry:partition:index for one message of a"
            " batch, with -1 as the partition if the topic is not partitioned"
        ) from error


def _read(topic: Topic, text: str) -> tuple[Position, int | None]:
    message_id = read_message_id(text)
    partition = topic.name.partition
    if message_id.partition >= 0 and message_id.partition != partition:
        whose = (
            f"partition {partition}"
            if partition is not None
            else "not partitioned: write one message of a batch as ledger:entry:-1:index"
        )
        raise ActInvalid(
            f"message id {text!r} names partition {message_id.partition}; {topic.name} is {whose}"
        )
    position = Position(message_id.ledger_id, message_id.entry_id)
    if min(position) < 0:
        raise ActInvalid(f"message id {text!r}: ledger and entry cannot be negative")
    return position, message_id.batch_index if message_id.batch_index >= 0 else None


async def _require_own(pool: ConnectionPool, topic: Topic, text: str, ledger_id: int) -> None:
    owner = await repeat_until_done(
        pool,
        lambda c: topic_store.topic_of_ledger(c, ledger_id),
        what="looking for a ledger",
    )
    if owner is not None and owner != topic.name.full:
        raise NothingToActOn(f"message id {text!r} belongs to {owner}, not to {topic.name}")
    first = next(iter(topic.log.ledgers), None)
    # A trimmed ledger has no row, and its id is lower than the ids of the topic's stored ledgers.
    if first is None or ledger_id > first.ledger_id or not first.entries_before:
        raise NothingToActOn(f"message id {text!r}: {topic.name} has no ledger {ledger_id}")
