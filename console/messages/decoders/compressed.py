"""Decompress payloads that an application compressed before it published them."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.messages.decoders.failures import CannotDecode
from console.words.numerals import size

__all__ = ["MOST_LAYERS", "compression_of", "decompressed"]

MOST_LAYERS: Final = 3

_MAGIC: Final = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x78\x01", "zlib"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
)
_TOO_LARGE: Final = gettext_noop("the payload unpacks to more than {size}, so it is shown packed")
_LZMA_MEMORY_BYTES: Final = 64 * 1024 * 1024
_PIECE_BYTES: Final = 4096
# A member is one complete compressed stream. gzip, bzip2 and xz data can have several members. After a member, gzip
# and xz allow padding with zeros.
_AFTER_GZIP: Final = re.compile(rb"\0*(?=\x1f\x8b\x08|\Z)")
_AFTER_BZIP2: Final = re.compile(rb"(?=BZh|\Z)")
_AFTER_XZ: Final = re.compile(rb"\0*(?=\xfd7zXZ\0|\Z)")
_AFTER_ZLIB: Final = re.compile(rb"\Z")


def compression_of(data: bytes) -> str:
    """Return the compression that the first bytes indicate, or an empty string."""
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


def decompressed(name: str, data: bytes, *, most_bytes: int) -> bytes:
    """Unpack the data. Raises CannotDecode on failure, or if the result exceeds `most_bytes`."""
    try:
        out = _UNPACK[name](data, most_bytes + 1)
    except (
        zlib.error,
        OSError,
        EOFError,
        ValueError,
        lzma.LZMAError,
        MemoryError,
        cramjam.DecompressionError,
    ) as error:
        raise CannotDecode(str(error) or type(error).__name__) from None
    if len(out) > most_bytes:
        raise CannotDecode(_(_TOO_LARGE).format(size=size(most_bytes)))
    return out


def _inflated(data: bytes, most_bytes: int) -> bytes:
    following = _AFTER_GZIP if data.startswith(b"\x1f") else _AFTER_ZLIB
    # The 32 tells decompressobj to detect the format by the header.
    return _whole(lambda: zlib.decompressobj(zlib.MAX_WBITS | 32), following, data, most_bytes)


def _bunzipped(data: bytes, most_bytes: int) -> bytes:
    return _whole(bz2.BZ2Decompressor, _AFTER_BZIP2, data, most_bytes)


def _unxzipped(data: bytes, most_bytes: int) -> bytes:
    return _whole(lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY_BYTES), _AFTER_XZ, data, most_bytes)


def _whole(
    decompressor_of: Callable[[], Any], following: re.Pattern[bytes], data: bytes, most_bytes: int
) -> bytes:
    """Unpack one member after another.

    The data goes to the decompressor in small pieces, because at the end of each member the decompressor copies the
    unused rest of its input.
    """
    out = bytearray()
    at = 0
    decompressor = decompressor_of()
    while at < len(data):
        piece = data[at : at + _PIECE_BYTES]
        out += decompressor.decompress(piece, most_bytes - len(out))
        if len(out) >= most_bytes:
            return bytes(out)
        at += len(piece)
        if not decompressor.eof:
            continue
        at -= len(decompressor.unused_data)
        match = following.match(data, at)
        if match is None:
            raise CannotDecode(
                _("the compressed data ends at byte {at}, but other bytes follow").format(at=at)
            )
        at = match.end()
        if at < len(data):
            decompressor = decompressor_of()
    if not decompressor.eof:
        raise EOFError(_("the data ends too early"))
    return bytes(out)


def _by_stream(codec: Any) -> Callable[[bytes, int], bytes]:
    """Return a function that unpacks into a buffer of fixed size, so that a small payload cannot fill up memory."""

    def unpacked(data: bytes, most_bytes: int) -> bytes:
        buffer = bytearray(most_bytes)
        try:
            written = codec.decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "write whole buffer" in str(error):
                raise CannotDecode(_(_TOO_LARGE).format(size=size(most_bytes - 1))) from None
            raise
        return bytes(memoryview(buffer)[:written])

    return unpacked


_UNPACK: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _inflated,
    "zlib": _inflated,
    "bzip2": _bunzipped,
    "xz": _unxzipped,
    "zstd": _by_stream(cramjam.zstd),
    "lz4": _by_stream(cramjam.lz4),
    "snappy": _by_stream(cramjam.snappy),
}
