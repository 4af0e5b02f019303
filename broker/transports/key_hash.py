"""Hashes of message keys, as Pulsar's clients and brokers compute them."""

from __future__ import annotations

import base64
import functools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vela.wire.entry import EntryHeader, Message

__all__ = ["entry_slot", "java_string_hash", "message_slot", "murmur3_32", "sticky_slot"]

_SLOTS: Final = 65536
_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593


def murmur3_32(data: bytes) -> int:
    """Murmur3 x86 32-bit with seed 0, unsigned."""
    value = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & _MASK
    if whole != len(data):
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ value >> 16) * 0x85EBCA6B) & _MASK
    value = ((value ^ value >> 13) * 0xC2B2AE35) & _MASK
    return value ^ value >> 16


def _mixed(block: int) -> int:
    block = block * _C1 & _MASK
    return (block << 15 | block >> 17) * _C2 & _MASK


@functools.lru_cache(maxsize=4096)
def sticky_slot(key: bytes) -> int:
    """Key_Shared's hash slot, 1 … 65535: the newest brokers give what hashes to 0 the slot 1 (protocol 3.7)."""
    return murmur3_32(key) % _SLOTS or 1


def entry_slot(header: EntryHeader) -> int | None:
    """The slot an entry is routed by, None when it has neither an ordering key nor a key."""
    if header.partition_key is None and header.ordering_key is None:
        return None
    return sticky_slot(header.sticky_key())


def message_slot(message: Message) -> int | None:
    """As `entry_slot`, of one message."""
    if message.ordering_key is not None:
        return sticky_slot(message.ordering_key)
    if message.key is None:
        return None
    if message.key_b64:
        try:
            return sticky_slot(base64.b64decode(message.key, validate=True))
        except ValueError:
            pass
    return sticky_slot(message.key.encode())


def java_string_hash(text: str) -> int:
    """`String.hashCode()` without its sign, over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "little")) & _MASK
    return value & 0x7FFFFFFF
