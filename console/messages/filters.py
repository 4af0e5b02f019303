"""The filters of the message browser."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from console.messages.values.json_path import JsonTest
from vela.wire.entry import Message
from vela.wire.key_hash import murmur3_32

__all__ = ["Filters", "matches", "slots_of_key"]

_SLOTS: Final = 65_536
_NO_DOCUMENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The conditions that a message must meet."""

    key: str = ""
    property_name: str = ""
    property_value: str | None = None  # If None, any value passes
    json_test: JsonTest | None = None
    text: str = ""

    @property
    def is_set(self) -> bool:
        """Whether any filter is set."""
        return bool(self.key or self.property_name) or self.needs_payload

    @property
    def needs_payload(self) -> bool:
        """Whether a filter looks at the payload."""
        return self.json_test is not None or bool(self.text)


def matches(filters: Filters, message: Message, *, has_payload: bool = True) -> bool | None:
    """Return whether a message passes, or None if that depends on a payload that cannot be read."""
    if filters.key and not _has_key(message, filters.key):
        return False
    if filters.property_name:
        value = message.properties.get(filters.property_name)
        if value is None or filters.property_value not in (None, value):
            return False
    if not has_payload:
        return None if filters.needs_payload else True
    if filters.text and filters.text.encode() not in message.payload:
        return False
    if filters.json_test is None:
        return True
    document = _document(message.payload)
    return document is not _NO_DOCUMENT and filters.json_test.holds(document)


def slots_of_key(key: str) -> list[int]:
    """Return the hash slot of a key. If the key is valid base64, also return the slot of the decoded bytes."""
    hashed = [key.encode()]
    decoded = _from_base64(key)
    if decoded is not None:
        hashed.append(decoded)
    return sorted({murmur3_32(each) % _SLOTS or 1 for each in hashed})


def _has_key(message: Message, key: str) -> bool:
    if message.key == key:
        return True
    if not message.key_b64 or message.key is None:
        return False
    return _from_base64(message.key) == key.encode()


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _document(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return _NO_DOCUMENT
