"""Read one message, its state on each subscription, and its neighbours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.utils.translation import gettext as _

from console.messages.asked import Asked, AskedInvalid, Mark, Spot
from console.messages.decoders.report import Decoded, decode
from console.messages.decoders.schemas import SchemaAt, schema_of
from console.messages.entries import OpenedEntry, StoredEntry, open_entry
from console.messages.filters import Filters
from console.messages.lanes import lanes_of
from console.messages.reader import MOST_ENTRY_BYTES
from console.messages.scan import Bounds, Scan, StoppedBy
from console.messages.states import MOST_CURSORS, CursorAt, MessageState, cursors_of, states_at
from console.queries.database import fetch_entries
from console.queries.topics.log import Log, by_place, log_of, logs_of
from console.queries.topics.topic import TopicHead, partitions
from vela.wire.entry import Message
from vela.wire.message_id import MessageId

__all__ = [
    "ALL_BYTES",
    "SHOWN_BYTES",
    "Body",
    "FoundMessage",
    "KeyNeighbour",
    "MessageMissing",
    "SubscriptionStates",
    "body_of",
    "find_message",
    "key_neighbours",
    "partition_of",
    "states_of",
]

SHOWN_BYTES: Final = 64 * 1024
ALL_BYTES: Final = 1024 * 1024
_KEY_BOUNDS: Final = Bounds(entries=2_000, bytes=16 * 1024 * 1024, seconds=0.2)


class MessageMissing(LookupError):
    """The message does not exist or is no longer stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """One message with its entry."""

    topic_id: int
    log: Log
    spot: Spot
    opened: OpenedEntry
    message: Message | None  # None if the entry's messages cannot be read
    older: Spot | None
    newer: Spot | None

    @property
    def message_id(self) -> str:
        """Return the message id as text, for links to forms."""
        return str(MessageId(self.spot.ledger_id, self.spot.entry_id, -1, self.spot.batch_index))

    @property
    def metadata(self) -> Message | None:
        """Return the message, or its metadata if its payload cannot be read. Return None if neither can be read."""
        return self.message or self.opened.outer

    @property
    def payload(self) -> bytes:
        """Return the payload. If the message cannot be read, return the entry's raw bytes."""
        return bytes(self.opened.stored.data) if self.message is None else self.message.payload


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStates:
    """The state of one message on each subscription."""

    rows: Sequence[tuple[CursorAt, MessageState]]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNeighbour:
    """The nearest older or newer message with the same key."""

    spot: Spot | None
    stopped_by: StoppedBy
    looked_at: int  # Number of entries
    unjudged: int  # Number of entries whose key cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A payload as the page shows it."""

    decoded: Decoded
    schema: SchemaAt | None
    size_bytes: int
    shown_bytes: int
    can_show_all: bool


def find_message(head: TopicHead, spot: Spot) -> FoundMessage:
    """Read one message, or the first message if `spot` names a whole batch.

    Raises MessageMissing if the message is not stored.
    """
    log = log_of(head.id)
    place = (spot.ledger_id, spot.entry_id)
    if not log.has_ledger(spot.ledger_id):
        raise MessageMissing(
            _(
                "{spot} is not stored on this topic: retention has trimmed it, or it belongs to another topic."
            ).format(spot=spot)
        )
    index = log.index_of(*place)
    if log.place_at(index) != place:
        raise MessageMissing(
            _("{spot} does not exist: ledger {ledger} ends before it.").format(
                spot=spot, ledger=spot.ledger_id
            )
        )
    stored = fetch_entries(
        StoredEntry, "peek", log.stores_of([place]), {**by_place([place]), "most_bytes": MOST_ENTRY_BYTES}
    )
    if not stored:
        raise MessageMissing(_("{spot} was trimmed a moment ago.").format(spot=spot))
    opened = open_entry(stored[0], most_bytes=MOST_ENTRY_BYTES, most_unpacked_bytes=MOST_ENTRY_BYTES)
    message = _member(opened, spot)
    older, newer = (log.place_at(index + by) for by in (-1, 1))
    found = FoundMessage(
        topic_id=head.id,
        log=log,
        spot=Spot(*place, -1 if message is None else message.batch_index),
        opened=opened,
        message=message,
        older=None if older is None else Spot(*older),
        newer=None if newer is None else Spot(*newer),
    )
    return found if message is None else _with_neighbours_inside(found, message)


def partition_of(head: TopicHead, spot: Spot) -> str:
    """Return the name of the partition that has `spot`'s ledger.

    Raises MessageMissing if no partition has the ledger.
    """
    rows = partitions(head.id)
    logs = logs_of([row.id for row in rows])
    for row in rows:
        if logs[row.id].has_ledger(spot.ledger_id):
            return row.name
    raise MessageMissing(
        _("{spot} is not stored on any partition: it was trimmed, or belongs to another topic.").format(
            spot=spot
        )
    )


def body_of(found: FoundMessage, head: TopicHead, *, shows_all: bool) -> Body:
    """Decode the first 64 KiB of the payload, or the first 1 MiB with `shows_all`."""
    payload, limit = found.payload, ALL_BYTES if shows_all else SHOWN_BYTES
    shown = payload[:limit]
    size_bytes = found.opened.stored.size_bytes if found.message is None else len(payload)
    schema: SchemaAt | None = None
    if found.message is not None:
        schema = schema_of(head.parent_name or head.name, found.message.schema_version)
    return Body(
        decoded=decode(shown, schema=schema, is_whole=len(shown) == size_bytes, most_bytes=ALL_BYTES),
        schema=schema,
        size_bytes=size_bytes,
        shown_bytes=len(shown),
        can_show_all=not shows_all and size_bytes > limit,
    )


def states_of(found: FoundMessage) -> SubscriptionStates:
    """Return the message's state on each subscription of its topic, sorted by name."""
    cursors = cursors_of([found.topic_id])
    is_all = len(cursors) <= MOST_CURSORS
    cursors = cursors[:MOST_CURSORS]
    stored = found.opened.stored
    known = states_at(cursors, [stored.place])
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            cursor,
            known.of(
                cursor,
                stored.place,
                batch_index=found.spot.batch_index,
                deliver_at_ms=stored.deliver_at_ms,
                now_ms=now_ms,
            ),
        )
        for cursor in cursors
    ]
    return SubscriptionStates(rows=rows, is_all=is_all)


def key_neighbours(found: FoundMessage, head: TopicHead) -> tuple[KeyNeighbour, KeyNeighbour] | None:
    """Search nearby for the previous and the next message with the same key.

    Returns None if the message has no readable key. Raises MessageMissing if the message was trimmed in the meantime.
    """
    message = found.metadata
    if message is None or not message.key:
        return None
    mark = Mark(found.opened.stored.append_ms, found.spot)
    older = Asked(start="newest", filters=Filters(key=message.key), limit=1, after=mark)
    newer = replace(older, start="oldest", is_backward=False)
    try:
        return _nearest(head, older), _nearest(head, newer)
    except AskedInvalid as error:
        raise MessageMissing(_("{spot} was trimmed a moment ago.").format(spot=found.spot)) from error


def _nearest(head: TopicHead, asked: Asked) -> KeyNeighbour:
    scan = Scan(lanes_of(head, asked), asked, _KEY_BOUNDS)
    hit = next(iter(list(scan.hits())), None)
    return KeyNeighbour(
        spot=None if hit is None else hit.spot,
        stopped_by=scan.looked.stopped_by,
        looked_at=scan.looked.entries,
        unjudged=scan.looked.unjudged.total(),
    )


def _member(opened: OpenedEntry, spot: Spot) -> Message | None:
    if opened.trouble is not None:
        return None
    if spot.batch_index < 0:
        if not opened.messages:
            raise MessageMissing(_("Compaction removed every message of the batch {spot}.").format(spot=spot))
        return opened.messages[0]
    for message in opened.messages:
        if message.batch_index == spot.batch_index:
            return message
    entries = opened.stored.messages
    is_batch = opened.header is not None and opened.header.is_batch
    what = (
        _("its batch has the messages 0 to {last}").format(last=entries - 1)
        if is_batch
        else _("the entry is not a batch")
    )
    raise MessageMissing(_("{spot} does not exist: {what}.").format(spot=spot, what=what))


def _with_neighbours_inside(found: FoundMessage, message: Message) -> FoundMessage:
    members = [each.batch_index for each in found.opened.messages]
    at = members.index(message.batch_index)
    place = found.opened.stored.place
    return replace(
        found,
        older=Spot(*place, members[at - 1]) if at > 0 else found.older,
        newer=Spot(*place, members[at + 1]) if at + 1 < len(members) else found.newer,
    )
