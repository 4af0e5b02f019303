"""Hashes of message keys, as Pulsar's clients and brokers compute them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from broker.core.hash_slots import slot_of_key

if TYPE_CHECKING:
    from vela.wire.entry import EntryHeader, Message

__all__ = ["entry_slot", "java_string_hash", "message_slot"]

_MASK: Final = 0xFFFFFFFF


def entry_slot(header: EntryHeader) -> int | None:
    """The slot an entry is routed by, None when it has neither an ordering key nor a key."""
    if header.partition_key is None and header.ordering_key is None:
        return None
    return slot_of_key(header.sticky_key())


def message_slot(message: Message) -> int | None:
    """As `entry_slot`, of one message."""
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


def java_string_hash(text: str) -> int:
    """`String.hashCode()` without its sign, over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "little")) & _MASK
    return value & 0x7FFFFFFF
