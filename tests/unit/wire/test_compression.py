"""Codecs: round trips, damage, and the limit for the size of a decompressed payload."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.compression import Compression, compress, decompress
from vela.wire.errors import CodecUnavailable, DecompressionFailed

REAL_CODECS = [codec for codec in Compression if codec is not Compression.NONE]


@given(st.sampled_from(Compression), st.binary(max_size=2000))
def test_every_codec_returns_what_it_compressed(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), uncompressed_bytes=len(data)) == data


@given(st.sampled_from(Compression), st.binary(max_size=500), st.integers(0, 600))
def test_another_size_than_declared_is_refused(codec: Compression, data: bytes, size: int) -> None:
    compressed = compress(codec, data)
    if size == len(data):
        assert decompress(codec, compressed, uncompressed_bytes=size) == data
    else:
        with pytest.raises(DecompressionFailed):
            decompress(codec, compressed, uncompressed_bytes=size)


@pytest.mark.parametrize("codec", REAL_CODECS)
@given(st.binary(max_size=200), st.integers(0, 4096))
def test_garbage_is_refused_by_name(codec: Compression, data: bytes, size: int) -> None:
    try:
        out = decompress(codec, data, uncompressed_bytes=size)
    except DecompressionFailed:
        return
    assert len(out) == size


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_is_stopped_at_the_declared_size(codec: Compression) -> None:
    bomb = compress(codec, bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionFailed):
            decompress(codec, bomb, uncompressed_bytes=1000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_cut_off_payload_is_refused(codec: Compression) -> None:
    data = bytes(range(256)) * 8
    with pytest.raises(DecompressionFailed):
        decompress(codec, compress(codec, data)[:-3], uncompressed_bytes=len(data))


def test_zlib_is_the_plain_zlib_format() -> None:
    assert decompress(2, zlib.compress(b"orders"), uncompressed_bytes=6) == b"orders"


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(CodecUnavailable, match="compression 9"):
        decompress(9, b"x", uncompressed_bytes=1)
