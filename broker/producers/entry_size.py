"""The limit on the size of an entry with its metadata."""

from __future__ import annotations

from typing import Final

from broker.core.errors import MessageTooLarge
from vela.wire.entry import FRAME_PADDING_BYTES

__all__ = ["check_entry_size"]

_DELIVERY_BYTES: Final = 128  # a frame adds fewer bytes than this to its entry


def check_entry_size(size_bytes: int, *, max_message_bytes: int) -> None:
    """Check the size of an entry with its metadata. Raises MessageTooLarge if a frame has no room for it.

    A client that gets a frame above its limit closes the connection, connects again, and gets the same entry again.
    """
    limit_bytes = max_message_bytes + FRAME_PADDING_BYTES - _DELIVERY_BYTES
    if size_bytes > limit_bytes:
        raise MessageTooLarge(
            f"an entry of {size_bytes} bytes with its properties and key, the limit is {limit_bytes}"
            " (VELA_MAX_MESSAGE_BYTES and about 10 KiB)"
        )
