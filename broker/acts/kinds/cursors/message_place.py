"""A message id as an operator writes it, found in a topic's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.acts.kinds.cursors.cursor_kind import with_index
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

__all__ = ["MessagePlace", "find_message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlace:
    """Where a message is, or was."""

    position: Position
    index: int | None  # in its batch; None = the whole entry
    messages: int  # of the entry, 0 when it is not stored
    is_stored: bool

    @property
    def everything(self) -> int:
        """The entry's ack set with nothing acked."""
        return full(self.messages)


async def find_message(pool: ConnectionPool, topic: Topic, text: str) -> MessagePlace:
    """Of `ledger:entry[:partition[:index]]`, as clients, pulls and the console print it; -1 is no partition.

    An entry that was trimmed, or that is not written yet in a ledger of the topic, is found and not stored. Raises
    ActInvalid for anything that is no id and for an id of another partition, NothingToActOn for one of another topic,
    of a ledger that never was, and for an index beyond the batch.
    """
    position, index = _read(topic, text)
    ledgers = topic.log.ledgers
    if ledgers.get(position.ledger_id) is None:
        await _require_own(pool, topic, text, position.ledger_id)
    if not ledgers.contains(position):
        return MessagePlace(position=position, index=index, messages=0, is_stored=False)
    messages = await with_index(topic.reader, lambda: topic.log.index.require_messages_in(position))
    if index is not None and index >= messages:
        holds = counted(messages, "message", "messages")
        raise NothingToActOn(f"message id {text!r}: {position} holds {holds}, there is no index {index}")
    return MessagePlace(
        position=position, index=index if messages > 1 else None, messages=messages, is_stored=True
    )


def _read(topic: Topic, text: str) -> tuple[Position, int | None]:
    try:
        message_id = MessageId.parse(text.strip())
    except InvalidMessageId as error:
        raise ActInvalid(
            f"message id {text!r}: write it as ledger:entry, or ledger:entry:partition:index for one message of a"
            " batch, with -1 where there are no partitions"
        ) from error
    partition = topic.name.partition
    if message_id.partition >= 0 and message_id.partition != partition:
        whose = (
            f"partition {partition}"
            if partition is not None
            else "not partitioned: one message of a batch is ledger:entry:-1:index"
        )
        raise ActInvalid(
            f"message id {text!r} is of partition {message_id.partition}; {topic.name} is {whose}"
        )
    position = Position(message_id.ledger_id, message_id.entry_id)
    if min(position) < 0:
        raise ActInvalid(f"message id {text!r}: ledger and entry are not negative")
    return position, message_id.batch_index if message_id.batch_index >= 0 else None


async def _require_own(pool: ConnectionPool, topic: Topic, text: str, ledger_id: int) -> None:
    """A ledger that the topic does not have was trimmed, or never was its own."""
    owner = await repeat_until_done(
        pool,
        lambda c: topic_store.topic_of_ledger(c, ledger_id),
        what="looking for a ledger",
    )
    if owner is not None and owner != topic.name.full:
        raise NothingToActOn(f"message id {text!r} is of {owner}, not of {topic.name}")
    first = next(iter(topic.log.ledgers), None)
    # The ledgers of deleted topics are remembered nowhere. Of a topic that still has its first entry none is gone.
    if first is None or ledger_id > first.ledger_id or not first.entries_before:
        raise NothingToActOn(f"message id {text!r}: {topic.name} has no ledger {ledger_id}")
