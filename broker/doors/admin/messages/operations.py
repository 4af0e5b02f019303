"""Operations that read messages, message ids and sizes without moving a cursor."""

from __future__ import annotations

from typing import Final, Literal

from django.http import HttpResponse
from ninja import Body, Router

from broker.acts.kinds.cursors.change import with_index
from broker.core.access.permissions import Action
from broker.core.entry import StoredEntry
from broker.core.position import EARLIEST, Position
from broker.doors.admin.catalogue import named
from broker.doors.admin.messages.entry_answer import entry_answer
from broker.doors.admin.operations import operation
from broker.doors.admin.refusals import Refused
from broker.doors.admin.request import AdminRequest
from broker.doors.admin.subscriptions import SUBSCRIPTION, found_subscription
from broker.doors.admin.topics import TOPIC, MessageIdData, opened
from broker.topics.topic import Topic

__all__ = ["router"]

_EARLIEST_LEDGER: Final = -1

router = Router()


@operation(
    router,
    "GET",
    f"{SUBSCRIPTION}/position/{{number:position}}",
    Action.CONSUME,
    media_type="application/octet-stream",
)
async def peek(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    subscription: str,
    position: int,
) -> HttpResponse:
    """Return an entry of a backlog; position 1 is the first unacknowledged entry."""
    name = named(domain, tenant, namespace, topic)
    found_topic, found = await found_subscription(request, name, subscription, "Peek messages")
    if position < 1:
        raise Refused(412, f"position is {position}: the first entry is 1")
    cursor = found.cursor
    if position > cursor.backlog_entries:
        raise Refused(404, "Message not found")
    before = await with_index(found_topic.reader, lambda: cursor.position_after_entries(position - 1))
    after = found_topic.log.ledgers.next_after(before.mark_delete)
    return await _entry(request, found_topic, cursor.next_unacked(after))


@operation(router, "GET", f"{TOPIC}/examinemessage", Action.CONSUME, media_type="application/octet-stream")
async def examine(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    initialPosition: Literal["latest", "earliest"] = "latest",  # noqa: N803 - Pulsar's names
    messagePosition: int = 1,  # noqa: N803
) -> HttpResponse:
    """Return an entry, counted from the end of the topic or from its beginning."""
    found = await opened(request, named(domain, tenant, namespace, topic), "Examine messages")
    ledgers = found.log.ledgers
    stored = sum(each.entries for each in ledgers)
    if not stored:
        raise Refused(412, "Could not examine messages due to the total message is zero")
    back = min(max(1, messagePosition), stored)
    return await _entry(
        request, found, _nth(found, back if initialPosition == "earliest" else stored - back + 1)
    )


@operation(
    router,
    "GET",
    f"{TOPIC}/ledger/{{number:ledger}}/entry/{{number:entry}}",
    Action.CONSUME,
    media_type="application/octet-stream",
)
async def get_message_by_id(
    request: AdminRequest,
    domain: str,
    tenant: str,
    namespace: str,
    topic: str,
    ledger: int,
    entry: int,
) -> HttpResponse:
    """Return an entry by its id."""
    found = await opened(request, named(domain, tenant, namespace, topic), "GetMessageById")
    position = Position(ledger, entry)
    if not found.log.ledgers.contains(position):
        raise Refused(404, "Message id not found")
    return await _entry(request, found, position)


@operation(router, "GET", f"{TOPIC}/lastMessageId", Action.CONSUME)
async def get_last_message_id(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str
) -> MessageIdData:
    """Return the id of the last message.

    If the topic stores no message, the ledger id and the entry id are -1.
    """
    name = named(domain, tenant, namespace, topic)
    try:
        found = await opened(request, name, "GetLastMessageId")
    except Refused as refused:
        # As in Pulsar, answer 404 for a partitioned topic and 405 for a non-persistent topic.
        raise Refused(404 if name.domain == "persistent" else 405, refused.reason) from refused
    ledgers = found.log.ledgers
    last = ledgers.last_position()
    if not ledgers.contains(last):
        return MessageIdData.of(name, Position(-1, -1))
    answer = MessageIdData.of(name, last)
    stored = await _read(found, last)
    if stored.is_batch:
        answer.batchIndex, answer.batchSize = stored.messages - 1, stored.messages
    return answer


@operation(router, "GET", f"{TOPIC}/messageid/{{number:time_ms}}", Action.CONSUME)
async def get_message_id_by_time(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, time_ms: int
) -> MessageIdData:
    """Return the id of the first message stored at or after a time, in ms since 1970."""
    name = named(domain, tenant, namespace, topic)
    found = await opened(request, name, "Get message ID by timestamp")
    position = await found.reader.position_at_time(time_ms)
    if not found.log.ledgers.contains(position):
        raise Refused(404, "Message ID not found")
    return MessageIdData.of(name, position)


@operation(router, "PUT", f"{TOPIC}/backlogSize", Action.CONSUME)
async def get_backlog_size(
    request: AdminRequest, domain: str, tenant: str, namespace: str, topic: str, since: Body[MessageIdData]
) -> int:
    """Return how many bytes are stored at and after a message id."""
    found = await opened(request, named(domain, tenant, namespace, topic), "Get backlog size")
    ledgers = found.log.ledgers
    is_whole = since.ledgerId == _EARLIEST_LEDGER
    start = ledgers.next_valid(EARLIEST if is_whole else Position(since.ledgerId, since.entryId))
    if not ledgers.contains(start):
        return 0
    before = ledgers.previous_of(start)
    if not ledgers.contains(before):
        return sum(each.size_bytes for each in ledgers)
    await found.reader.load_index([(before.ledger_id, before.entry_id, before.entry_id)])
    return ledgers.total_bytes - (found.log.index.bytes_through(before) or 0)


def _nth(topic: Topic, number: int) -> Position:
    for ledger in topic.log.ledgers:
        if number <= ledger.entries:
            return Position(ledger.ledger_id, number - 1)
        number -= ledger.entries
    raise Refused(404, "Message not found")


async def _read(topic: Topic, position: Position) -> StoredEntry:
    entries = await topic.reader.read_once(position, most=1, more_bytes=0)
    if not entries:
        raise Refused(404, f"Message {position} is no longer stored")
    return entries[0]


async def _entry(request: AdminRequest, topic: Topic, position: Position) -> HttpResponse:
    entry = await _read(topic, position)
    return entry_answer(entry, most_bytes=request.broker.settings.max_uncompressed_bytes)
