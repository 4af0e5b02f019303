"""The next messages of a subscription, read from the log without consuming them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from console.queries.database import fetch_entries
from console.queries.log import Log, Place, by_place
from console.words.numerals import size
from vela.wire.entry import decode_messages, parse_header
from vela.wire.errors import EntryCorrupt, EntryIsChunk, UncompressedSizeExceeded

__all__ = ["PEEK_BYTES", "PEEK_MESSAGES", "PeekedMessage", "peek", "preview_of"]

PEEK_MESSAGES = 20
PEEK_BYTES = 256 * 1024
PREVIEW_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekedMessage:
    """One message, or one entry that is not decoded (large, encrypted, corrupt)."""

    ledger_id: int
    entry_id: int
    batch_index: int  # -1 = not a batch
    batch_size: int
    append_ms: int
    publish_ms: int
    deliver_at_ms: int  # 0 = at once
    size_bytes: int  # of the payload, or of the entry if it is not decoded
    key: str | None
    properties: tuple[tuple[str, str], ...]
    producer: str
    preview: str  # at most 200 characters; "" if `trouble` says why
    is_text: bool  # False: `preview` is hexadecimal
    trouble: str

    @property
    def message_id(self) -> str:
        """Return ledger:entry, with partition and batch index for a member of a batch."""
        base = f"{self.ledger_id}:{self.entry_id}"
        return base if self.batch_index < 0 else f"{base}:-1:{self.batch_index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    ledger_id: int
    entry_id: int
    messages: int
    append_ms: int
    deliver_at_ms: int
    size_bytes: int
    data: bytes


def peek(
    log: Log, places: Iterable[Place], *, unacked: Mapping[Place, int], limit: int = PEEK_MESSAGES
) -> list[PeekedMessage]:
    """Return the messages at these places in order, at most `limit`. Changes nothing. One query.

    `unacked` has the bitsets of partly acked batches, whose acked members are left out.
    """
    asked = list(places)
    entries = fetch_entries(
        _Entry, "peek", log.segments_of(asked), {**by_place(asked), "most_bytes": PEEK_BYTES}
    )
    entries.sort(key=lambda entry: (entry.ledger_id, entry.entry_id))
    messages: list[PeekedMessage] = []
    for entry in entries:
        if len(messages) >= limit:
            break
        messages.extend(_taken_apart(entry, unacked.get((entry.ledger_id, entry.entry_id))))
    return messages[:limit]


def _taken_apart(entry: _Entry, unacked: int | None) -> list[PeekedMessage]:
    data = bytes(entry.data)
    try:
        header = parse_header(data)
        if entry.size_bytes > PEEK_BYTES:
            return [_whole(entry, header.publish_time_ms, header.producer_name, "too large to show")]
        if header.encrypted:
            return [_whole(entry, header.publish_time_ms, header.producer_name, "encrypted by the producer")]
        decoded = decode_messages(data, max_message_bytes=8 * PEEK_BYTES)
    except UncompressedSizeExceeded:
        unpacked = f"too large to show: {size(header.uncompressed_size)} when decompressed"
        return [_whole(entry, header.publish_time_ms, header.producer_name, unpacked)]
    except EntryIsChunk as error:
        return [
            _whole(entry, header.publish_time_ms, header.producer_name, f"one chunk of a message: {error}")
        ]
    except EntryCorrupt as error:
        return [_whole(entry, 0, "", f"cannot be decoded: {error}")]
    peeked = []
    for message in decoded:
        if unacked is not None and message.batch_index >= 0 and not unacked >> message.batch_index & 1:
            continue
        preview, is_text = preview_of(message.payload)
        peeked.append(
            PeekedMessage(
                ledger_id=entry.ledger_id,
                entry_id=entry.entry_id,
                batch_index=message.batch_index,
                batch_size=message.batch_size,
                append_ms=entry.append_ms,
                publish_ms=message.publish_time_ms,
                deliver_at_ms=entry.deliver_at_ms,
                size_bytes=len(message.payload),
                key=message.key,
                properties=tuple(sorted(message.properties.items())),
                producer=message.producer_name,
                preview=preview,
                is_text=is_text,
                trouble="",
            )
        )
    return peeked


def _whole(entry: _Entry, publish_ms: int, producer: str, trouble: str) -> PeekedMessage:
    return PeekedMessage(
        ledger_id=entry.ledger_id,
        entry_id=entry.entry_id,
        batch_index=-1,
        batch_size=entry.messages,
        append_ms=entry.append_ms,
        publish_ms=publish_ms,
        deliver_at_ms=entry.deliver_at_ms,
        size_bytes=entry.size_bytes,
        key=None,
        properties=(),
        producer=producer,
        preview="",
        is_text=True,
        trouble=trouble,
    )


def preview_of(payload: bytes) -> tuple[str, bool]:
    """Return the first 200 characters if the payload is UTF-8 text without control characters, else hexadecimal."""
    head = payload[: 4 * PREVIEW_CHARACTERS]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # Cutting the payload may have cut its last character, which does not make it binary.
        if len(payload) == len(head) or error.start < len(head) - 3:
            return head[:64].hex(" "), False
        text = head[: error.start].decode()
    if any(character < " " and character not in "\t\r\n" for character in text):
        return head[:64].hex(" "), False
    return text[:PREVIEW_CHARACTERS], True
