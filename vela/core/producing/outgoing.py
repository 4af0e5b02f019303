"""A message to send, as the application gave it, before it is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["NO_PROPERTIES", "REPLICATE_NOWHERE", "Outgoing"]

NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})

REPLICATE_NOWHERE: Final = ("__local__",)
"""`replicate_to` of a message with disable_replication."""


class Outgoing(NamedTuple):
    """One message. It is a named tuple, which is cheap to create: every message with more than a payload needs one."""

    payload: bytes
    properties: Mapping[str, str] = NO_PROPERTIES
    key: str | None = None  # for routing and compaction
    key_b64: bool = False  # `key` is the base64 text of a binary key
    ordering_key: bytes | None = None  # Key_Shared prefers it to the key
    sequence_id: int | None = None  # None = the producer counts
    event_time_ms: int = 0  # 0 = none
    deliver_at_ms: int | None = None  # None = at once
    replicate_to: tuple[str, ...] = ()  # () = as the namespace says
    null_value: bool = False  # a tombstone; the payload is empty

    def batches(self) -> bool:
        """Return whether the message can be in a batch.

        It cannot if it has a field that only a whole entry can have.
        """
        return self.deliver_at_ms is None and not self.replicate_to

    def sticky_key(self) -> bytes | None:
        """Return the key that key-based batches and Key_Shared use: the ordering key, else the key."""
        if self.ordering_key is not None:
            return self.ordering_key
        return None if self.key is None else self.key.encode()

    def size_bytes(self) -> int:
        """Return roughly how many bytes the message takes in an entry."""
        size = len(self.payload) + len(self.ordering_key or b"")
        if self.key is not None:
            size += _utf8_bytes(self.key)
        for name, value in self.properties.items():
            size += _utf8_bytes(name) + _utf8_bytes(value)
        return size


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
