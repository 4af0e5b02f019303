"""Stored entries and the messages inside them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.queries.topics.log import Place
from console.words.numerals import size
from vela.wire.entry import EntryHeader, Message, decode_messages, parse_header
from vela.wire.entry.decoding import single_message
from vela.wire.entry.header import parse_metadata
from vela.wire.errors import EntryCorrupt, EntryIsChunk, UncompressedSizeExceeded

__all__ = ["OpenedEntry", "StoredEntry", "Trouble", "open_entry", "unacked_members"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """One entry. If the entry is large, `data` has only the beginning."""

    ledger_id: int
    entry_id: int
    messages: int
    append_ms: int
    deliver_at_ms: int  # 0 means at once
    size_bytes: int
    data: bytes

    @property
    def place(self) -> Place:
        """The ledger id and the entry id."""
        return (self.ledger_id, self.entry_id)


class Trouble(Enum):
    """A reason why the messages inside an entry cannot be read."""

    TOO_LARGE = gettext_noop("too large")
    ENCRYPTED = gettext_noop("encrypted")
    CHUNK = gettext_noop("chunk")
    CORRUPT = gettext_noop("corrupt")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEntry:
    """The messages of an entry, or the reason why they cannot be read."""

    stored: StoredEntry
    header: EntryHeader | None = None
    messages: tuple[Message, ...] = ()  # In batch order, without messages that compaction removed
    outer: Message | None = None  # Metadata of an unbatched message whose payload cannot be read
    trouble: Trouble | None = None
    why: str = ""


def open_entry(stored: StoredEntry, *, most_bytes: int, most_unpacked_bytes: int) -> OpenedEntry:
    """Decode an entry's messages, or return why they cannot be read."""
    data = bytes(stored.data)
    header: EntryHeader | None = None
    try:
        header = parse_header(data)
        if stored.size_bytes > most_bytes:
            return _unread(stored, header, Trouble.TOO_LARGE, _("too large to show"))
        if header.encrypted:
            return _unread(stored, header, Trouble.ENCRYPTED, _("encrypted by the producer"))
        messages = decode_messages(data, max_message_bytes=most_unpacked_bytes)
    except UncompressedSizeExceeded:
        unpacked = (
            header.uncompressed_size if header is not None and header.compression else stored.size_bytes
        )
        why = _("too large to show: {size} when decompressed").format(size=size(unpacked))
        return _unread(stored, header, Trouble.TOO_LARGE, why)
    except EntryIsChunk as error:
        return _unread(
            stored, header, Trouble.CHUNK, _("one chunk of a message: {error}").format(error=error)
        )
    except EntryCorrupt as error:
        return OpenedEntry(
            stored=stored,
            header=header,
            trouble=Trouble.CORRUPT,
            why=_("cannot be decoded: {error}").format(error=error),
        )
    return OpenedEntry(stored=stored, header=header, messages=tuple(messages))


def unacked_members(opened: OpenedEntry, unacked: int | None) -> tuple[Message, ...]:
    """Return the messages whose bits are set in `unacked`. If `unacked` is None, return all messages."""
    if unacked is None:
        return opened.messages
    return tuple(
        message
        for message in opened.messages
        if message.batch_index < 0 or unacked >> message.batch_index & 1
    )


def _unread(stored: StoredEntry, header: EntryHeader | None, trouble: Trouble, why: str) -> OpenedEntry:
    outer: Message | None = None
    if header is not None and not header.is_batch:
        data = bytes(stored.data)
        try:
            metadata, payload_offset = parse_metadata(data)
            outer = single_message(metadata, data[payload_offset:])
        except EntryCorrupt:
            outer = None  # The key or a property is not UTF-8
    return OpenedEntry(stored=stored, header=header, outer=outer, trouble=trouble, why=why)
