"""The entry: the bytes that one SEND carries, the broker stores and one MESSAGE delivers, unchanged throughout.

`0x0e01 | CRC32C u32 | metadata size u32 | MessageMetadata | payload`, with big-endian integers. The CRC covers
everything after itself.
"""

from __future__ import annotations

from vela.wire.checksum import checksum_ok, with_checksum
from vela.wire.compression import Compression
from vela.wire.entry.decoding import (
    EncryptedEntry,
    Message,
    decode_encrypted,
    decode_messages,
    last_sequence_id,
    open_entry,
)
from vela.wire.entry.encoding import OutgoingMessage, encode_batch, encode_single
from vela.wire.entry.header import FRAME_PADDING_BYTES, EntryHeader, parse_header
from vela.wire.entry.plain import PlainHead, plain_head
from vela.wire.errors import EntryCorrupt

__all__ = [
    "FRAME_PADDING_BYTES",
    "Compression",
    "EncryptedEntry",
    "EntryCorrupt",
    "EntryHeader",
    "Message",
    "OutgoingMessage",
    "PlainHead",
    "checksum_ok",
    "decode_encrypted",
    "decode_messages",
    "encode_batch",
    "encode_single",
    "last_sequence_id",
    "open_entry",
    "parse_header",
    "plain_head",
    "with_checksum",
]
