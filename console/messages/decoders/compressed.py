"""Decompress payloads that an application compressed before it published them. The first bytes show the format."""

from __future__ import annotations

import bz2
import lzma
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


def compression_of(data: bytes) -> str:
    """Return the name of the compression that the first bytes show, or "" if they show none."""
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


def decompressed(name: str, data: bytes, *, most_bytes: int) -> bytes:
    """Unpack the data. Raises CannotDecode if that fails, takes too much memory or gives more than `most_bytes`."""
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
    # With 32, the header says whether it is gzip or zlib.
    return _whole(zlib.decompressobj(zlib.MAX_WBITS | 32), data, most_bytes)


def _bunzipped(data: bytes, most_bytes: int) -> bytes:
    return _whole(bz2.BZ2Decompressor(), data, most_bytes)


def _unxzipped(data: bytes, most_bytes: int) -> bytes:
    return _whole(lzma.LZMADecompressor(memlimit=_LZMA_MEMORY_BYTES), data, most_bytes)


def _whole(decompressor: Any, data: bytes, most_bytes: int) -> bytes:
    out = bytes(decompressor.decompress(data, most_bytes))
    if not decompressor.eof and len(out) < most_bytes:
        raise EOFError(_("the data ends too early"))
    return out


def _by_stream(codec: Any) -> Callable[[bytes, int], bytes]:
    """Return a function that unpacks into a buffer of fixed size, so that a small payload cannot fill the memory."""

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
