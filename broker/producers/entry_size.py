"""The size limit of entries."""

from __future__ import annotations

from typing import Final

from broker.core.errors import MessageTooLarge
from vela.wire.entry import FRAME_PADDING_BYTES

__all__ = ["check_entry_size"]

_DELIVERY_BYTES: Final = 128  # Upper bound for the bytes that a frame adds


def check_entry_size(size_bytes: int, *, max_message_bytes: int) -> None:
    """Raise MessageTooLarge if an entry, including its metadata, does not fit into a frame.

    A client that gets too large a frame closes the connection, reconnects, and gets the same entry again.
    """
    limit_bytes = max_message_bytes + FRAME_PADDING_BYTES - _DELIVERY_BYTES
    if size_bytes > limit_bytes:
        raise MessageTooLarge(
            f"an entry of {size_bytes} bytes with its properties and key, the limit is {limit_bytes}"
            " (VELA_MAX_MESSAGE_BYTES and about 10 KiB)"
        )
