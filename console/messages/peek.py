"""Read the next messages of a subscription without consuming them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from console.messages.asked import Spot
from console.messages.entries import OpenedEntry, StoredEntry, open_entry, unacked_members
from console.queries.cursor import acked_beyond
from console.queries.database import fetch_entries
from console.queries.subscription import SubscriptionHead
from console.queries.topics.log import Log, Place, by_place, log_of
from vela.wire.entry import Message
from vela.wire.message_id import MessageId

__all__ = [
    "PEEK_BYTES",
    "PEEK_MESSAGES",
    "PeekedMessage",
    "next_messages",
    "peek",
    "peeked",
    "peeked_whole",
    "preview_of",
]

PEEK_MESSAGES = 20
PEEK_BYTES = 256 * 1024
PREVIEW_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekedMessage:
    """One message, or one entry whose messages cannot be read."""

    ledger_id: int
    entry_id: int
    batch_index: int  # -1 outside a batch, and for an unreadable entry
    batch_size: int
    append_ms: int
    publish_ms: int
    deliver_at_ms: int  # 0 means at once
    size_bytes: int  # Size of the payload, or of the whole entry if it is unreadable
    key: str | None
    key_is_base64: bool
    properties: tuple[tuple[str, str], ...]
    producer: str
    preview: str
    is_text: bool  # If false, `preview` is hexadecimal
    null_value: bool
    trouble: str  # Empty if the entry is readable
    cells: tuple[str | None, ...] = ()

    @property
    def was_published_apart(self) -> bool:
        """Return whether the publish time and the storage time differ by more than a second."""
        return bool(self.publish_ms) and abs(self.append_ms - self.publish_ms) > 1000

    @property
    def spot(self) -> Spot:
        """Return the position."""
        return Spot(self.ledger_id, self.entry_id, self.batch_index)

    @property
    def message_id(self) -> str:
        """Return the message id as text."""
        return str(MessageId(self.ledger_id, self.entry_id, batch_index=self.batch_index))


def peek(
    log: Log, places: Iterable[Place], *, unacked: Mapping[Place, int], limit: int = PEEK_MESSAGES
) -> list[PeekedMessage]:
    """Return at most `limit` messages of the entries at these places, in order.

    For each partly acked batch, `unacked` has the bitset of the messages to return.
    """
    asked = list(places)
    entries = fetch_entries(
        StoredEntry, "peek", log.stores_of(asked), {**by_place(asked), "most_bytes": PEEK_BYTES}
    )
    entries.sort(key=lambda entry: entry.place)
    messages: list[PeekedMessage] = []
    for entry in entries:
        if len(messages) >= limit:
            break
        opened = open_entry(entry, most_bytes=PEEK_BYTES, most_unpacked_bytes=8 * PEEK_BYTES)
        if opened.trouble is not None:
            messages.append(peeked_whole(opened))
        messages += [peeked(entry, message) for message in unacked_members(opened, unacked.get(entry.place))]
    return messages[:limit]


def next_messages(head: SubscriptionHead, limit: int) -> list[PeekedMessage]:
    """Return the next unacked messages, including messages in flight."""
    log = log_of(head.topic_id)
    mark_delete = log.index_of(head.mark_delete_ledger, head.mark_delete_entry)
    acked = acked_beyond(head.id, log, mark_delete)
    indexes = islice(acked.next_unacked(mark_delete + 1, log.end), limit)
    places: list[Place] = [place for index in indexes if (place := log.place_at(index)) is not None]
    unacked = {
        place: acked.ack_sets[index] for place in places if (index := log.index_of(*place)) in acked.ack_sets
    }
    return peek(log, places, unacked=unacked, limit=limit)


def peeked(entry: StoredEntry, message: Message) -> PeekedMessage:
    """Convert a message of this entry for display in a list."""
    preview, is_text = preview_of(message.payload)
    return PeekedMessage(
        ledger_id=entry.ledger_id,
        entry_id=entry.entry_id,
        batch_index=message.batch_index,
        batch_size=message.batch_size,
        append_ms=entry.append_ms,
        publish_ms=message.publish_time_ms,
        deliver_at_ms=entry.deliver_at_ms,
        size_bytes=len(message.payload),
        key=message.key,
        key_is_base64=message.key_b64,
        properties=tuple(sorted(message.properties.items())),
        producer=message.producer_name,
        preview=preview,
        is_text=is_text,
        null_value=message.null_value,
        trouble="",
    )


def peeked_whole(opened: OpenedEntry) -> PeekedMessage:
    """Convert an unreadable entry for display in a list."""
    entry, header, outer = opened.stored, opened.header, opened.outer
    return PeekedMessage(
        ledger_id=entry.ledger_id,
        entry_id=entry.entry_id,
        batch_index=-1,
        batch_size=entry.messages,
        append_ms=entry.append_ms,
        publish_ms=0 if header is None else header.publish_time_ms,
        deliver_at_ms=entry.deliver_at_ms,
        size_bytes=entry.size_bytes,
        key=None if outer is None else outer.key,
        key_is_base64=outer is not None and outer.key_b64,
        properties=() if outer is None else tuple(sorted(outer.properties.items())),
        producer="" if header is None else header.producer_name,
        preview="",
        is_text=True,
        null_value=False,
        trouble=opened.why,
    )


def preview_of(payload: bytes) -> tuple[str, bool]:
    """Return a preview of the payload, and whether the payload is text."""
    head = payload[: 4 * PREVIEW_CHARACTERS]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # Cutting the payload may have split the last character.
        if len(payload) == len(head) or error.start < len(head) - 3:
            return head[:64].hex(" "), False
        text = head[: error.start].decode()
    if any(character < " " and character not in "\t\r\n" for character in text):
        return head[:64].hex(" "), False
    return text[:PREVIEW_CHARACTERS], True
