"""A cache of decoded entries, shared by all consumer and reader sockets."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from broker.doors.websocket.json.consumer import push_fragment
from vela.wire.entry import decode_messages

__all__ = ["Fragment", "FragmentCache"]


class Fragment(NamedTuple):
    """The part of a message's push frame that is the same for every delivery."""

    batch_index: int  # -1 if the entry is not a batch, or is encrypted
    batch_size: int  # 0 if the entry is not a batch, or is encrypted
    data: bytes


class FragmentCache:
    """Keeps up to `max_bytes` of fragments, and drops the oldest entries first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[int, int], tuple[list[Fragment], int]] = OrderedDict()

    @property
    def size_bytes(self) -> int:
        """The size of the cached fragments."""
        return self._bytes

    def fragments(
        self, ledger_id: int, entry_id: int, data: bytes, *, max_message_bytes: int
    ) -> list[Fragment]:
        """Return the fragments of an entry's messages. Raises EntryCorrupt if the entry cannot be decoded."""
        key = (ledger_id, entry_id)
        known = self._entries.get(key)
        if known is not None:
            return known[0]
        messages = decode_messages(data, max_message_bytes=max_message_bytes)
        found = [
            Fragment(message.batch_index, message.batch_size, push_fragment(message)) for message in messages
        ]
        size = sum(len(fragment.data) for fragment in found)
        if size <= self._max_bytes // 4:
            self._entries[key] = (found, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped
        return found
