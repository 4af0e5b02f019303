"""Build the part of MESSAGE that precedes the entry.

MESSAGE is a very frequent command, so this code encodes it by hand, without protobuf.
"""

from __future__ import annotations

import struct
from typing import Final

from vela.wire import ack_set as ack_sets
from vela.wire import varint

__all__ = ["message_head"]

_SIZES: Final = struct.Struct(">II")
_ONE_BYTE: Final = 0x80  # Varints below this number take one byte.


def message_head(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    partition: int,
    redelivery_count: int,
    ack_set: int | None,
    entry_bytes: int,
    epoch: int | None = None,
) -> bytes:
    """Build the sizes and the command that precede the entry.

    `partition` is -1 if the topic is not a partition. `ack_set` is None if all messages are unacked. `epoch` is None if
    the client never sent an epoch.
    """
    encode = varint.encode
    where = b"\x08%b\x10%b" % (encode(ledger_id), encode(entry_id))
    if partition >= 0:
        where += b"\x18" + encode(partition)
    body = b"\x08%b\x12%c%b" % (encode(consumer_id), len(where), where)
    if redelivery_count:
        body += b"\x18" + encode(redelivery_count)
    if ack_set is not None:
        body += b"".join(b"\x20" + encode(word) for word in ack_sets.to_words(ack_set))
    if epoch is not None:
        body += b"\x28" + encode(epoch)
    size = len(body)
    # The bytes 08 09 encode the type MESSAGE. The byte 4a begins field 9.
    if size < _ONE_BYTE:
        return b"%b\x08\x09\x4a%c%b" % (_SIZES.pack(size + 8 + entry_bytes, size + 4), size, body)
    command = b"\x08\x09\x4a" + encode(size) + body
    return _SIZES.pack(len(command) + 4 + entry_bytes, len(command)) + command
