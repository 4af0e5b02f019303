"""Compress and decompress payloads. A decompressed payload has exactly the size that its metadata declares."""

from __future__ import annotations

import enum
import zlib

import cramjam

from vela.wire.errors import CodecUnavailable, DecompressionFailed

__all__ = ["Compression", "compress", "decompress"]


class Compression(enum.IntEnum):
    """The values of MessageMetadata.compression."""

    NONE = 0
    LZ4 = 1  # bare block, no frame header and no size in front
    ZLIB = 2
    ZSTD = 3
    SNAPPY = 4  # raw block, no framing


def compress(codec: Compression, data: bytes) -> bytes:
    """Return `data` compressed."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.LZ4:
            return bytes(cramjam.lz4.compress_block(data, store_size=False))
        case Compression.ZLIB:
            return zlib.compress(data)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data))
        case Compression.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))


def decompress(codec: int, data: bytes, *, uncompressed_bytes: int) -> bytes:
    """Decompress `data` to exactly `uncompressed_bytes`. This allocates at most about twice as much memory.

    Raises CodecUnavailable (unknown codec), DecompressionFailed (damaged data, or a different size).
    """
    if codec == Compression.NONE:
        out = data
    elif codec == Compression.ZLIB:
        out = _inflate(data, uncompressed_bytes)
    elif codec in (Compression.LZ4, Compression.ZSTD, Compression.SNAPPY):
        out = _decompress_into(codec, data, uncompressed_bytes)
    else:
        raise CodecUnavailable(f"unknown compression {codec}")
    if len(out) != uncompressed_bytes:
        raise DecompressionFailed(
            f"the payload has {len(out)} bytes, but its metadata declares {uncompressed_bytes}"
        )
    return out


def _inflate(data: bytes, limit_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        out = inflater.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise DecompressionFailed(f"zlib: {error}") from None
    if not inflater.eof:
        raise DecompressionFailed("zlib: the payload is cut off or larger than its metadata declares")
    return out


def _decompress_into(codec: int, data: bytes, size_bytes: int) -> bytes:
    buffer = bytearray(size_bytes)
    try:
        if codec == Compression.LZ4:
            written = cramjam.lz4.decompress_block_into(data, buffer)
        elif codec == Compression.ZSTD:
            written = cramjam.zstd.decompress_into(data, buffer)
        else:
            written = cramjam.snappy.decompress_raw_into(data, buffer)
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"{Compression(codec).name.lower()}: {error}") from None
    return bytes(memoryview(buffer)[:written])
