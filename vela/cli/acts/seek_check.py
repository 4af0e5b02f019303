"""Refuse a seek to a message that does not exist.

The broker would seek to the next message, or to the end, as Apache's clients expect. On a command line a missing
message is most likely a mistyped id, and a seek cannot be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vela.cli.errors import CliError, Exit
from vela.cli.text.message_format import id_text
from vela.cli.text.names import short_name
from vela.core.topic_name import partition_name

if TYPE_CHECKING:
    from vela.aio import Client
    from vela.cli.start import Start
    from vela.message import Message, MessageId

__all__ = ["require_message"]

_PERSISTENT = "persistent:"
_WAIT_MS = 15_000


async def require_message(client: Client, topic: str, place: Start) -> None:
    """Raise CliError if the place is the id of a message that the topic does not store. Other places always exist.

    Also raises the errors of opening a reader. Creates no topic and no durable subscription, and moves nothing.
    """
    from vela.message import MessageId

    target = place.target()
    if place.id is None or not isinstance(target, MessageId) or not topic.startswith(_PERSISTENT):
        return
    holder = _holder(topic, await client.partitions(topic, create=False), target)
    found = await _first_from(client, holder, target)
    if found is None:
        raise _not_there(
            target, holder, "the topic stores no message at or after this id; --seek latest goes to the end"
        )
    following = found.message_id()
    if not _is(target, following):
        raise _not_there(target, holder, f"the next stored message is {id_text(following)}")


def _holder(topic: str, partitions: int, target: MessageId) -> str:
    """Return the topic or partition that has the message. Raises CliError if there is no such partition."""
    if not partitions:
        return topic
    name = short_name(topic)
    if target.partition() < 0:
        raise CliError(
            f"message id {id_text(target)} does not name a partition, and {name} is partitioned: seek on"
            f" {name}-partition-0 to {name}-partition-{partitions - 1}",
            Exit.USAGE,
        )
    if target.partition() >= partitions:
        raise _not_there(target, topic, f"the topic has the partitions 0 to {partitions - 1}")
    return partition_name(topic, target.partition())


async def _first_from(client: Client, topic: str, target: MessageId) -> Message | None:
    """Return the first message at or after the id; None at the topic's end."""
    from vela.options import ConsumerCryptoFailureAction

    async with await client.create_reader(
        topic,
        target,
        receiver_queue_size=1,
        start_message_id_inclusive=True,
        crypto_failure_action=ConsumerCryptoFailureAction.CONSUME,
    ) as reader:
        if not await reader.has_message_available():
            return None
        return await reader.read_next(_WAIT_MS)


def _is(target: MessageId, found: MessageId) -> bool:
    begins = found.first_chunk() or found
    if (target.ledger_id(), target.entry_id()) != (begins.ledger_id(), begins.entry_id()):
        return False
    is_partition = target.partition() in (-1, found.partition())
    # A client that cannot decrypt a batch sees one message without an index.
    is_member = (
        -1 in (target.batch_index(), found.batch_index()) or target.batch_index() == found.batch_index()
    )
    return is_partition and is_member


def _not_there(target: MessageId, topic: str, why: str) -> CliError:
    return CliError(
        f"there is no message {id_text(target)} in {short_name(topic)}: {why}; nothing was moved",
        Exit.NOTHING,
        code="NothingToActOn",
    )
