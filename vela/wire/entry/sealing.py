"""The last steps of making an entry: compression, encryption and checksum, in this order."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import google_crc32c

from vela.wire.checksum import MAGIC
from vela.wire.compression import Compression, compress
from vela.wire.pb.vela_pulsar_pb2 import MessageMetadata

__all__ = ["TAG_BYTES", "Encrypt", "MessageMetadata", "compress_payload", "seal"]

Encrypt = Callable[[MessageMetadata, bytes], bytes]
"""Returns the encrypted payload and writes the keys and the initialisation vector into the metadata."""

TAG_BYTES: Final = 16
"""How much longer encryption makes a payload: AES-GCM appends a tag."""

_U32: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">2sI")


def compress_payload(metadata: MessageMetadata, payload: bytes, codec: Compression) -> bytes:
    """Return the compressed payload and note the codec and the original size in the metadata."""
    if not codec:
        return payload
    metadata.compression = codec
    metadata.uncompressed_size = len(payload)
    return compress(codec, payload)


def seal(metadata: MessageMetadata, payload: bytes, encrypt: Encrypt | None = None) -> bytes:
    """Return the entry for a payload that is compressed already. Raises the errors of `encrypt`."""
    if encrypt is not None:
        payload = encrypt(metadata, payload)
    serialized = metadata.SerializeToString()
    head = _U32.pack(len(serialized)) + serialized
    crc = google_crc32c.extend(google_crc32c.value(head), payload)
    return b"".join((_HEAD.pack(MAGIC, crc), head, payload))
