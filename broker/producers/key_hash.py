"""Compute the hash slots of entries and messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from broker.core.hash_slots import slot_of_key

if TYPE_CHECKING:
    from vela.wire.entry import EntryHeader, Message

__all__ = ["entry_slot", "message_slot"]


def entry_slot(header: EntryHeader) -> int | None:
    """Return the hash slot of an entry, or None if the entry has no ordering key and no key."""
    if header.partition_key is None and header.ordering_key is None:
        return None
    return slot_of_key(header.sticky_key())


def message_slot(message: Message) -> int | None:
    """Return the hash slot of a message, or None if the message has no ordering key and no key."""
    if message.ordering_key is not None:
        return slot_of_key(message.ordering_key)
    if message.key is None:
        return None
    if message.key_b64:
        try:
            return slot_of_key(base64.b64decode(message.key, validate=True))
        except ValueError:
            pass
    return slot_of_key(message.key.encode())
