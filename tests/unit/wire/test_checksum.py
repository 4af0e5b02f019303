"""CRC32C: published vectors, and the bytes of an entry that it covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire.checksum import checksum_ok, crc32c, with_checksum


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_vectors_have_their_checksums(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@given(st.binary(max_size=200).filter(lambda data: data[:2] != b"\x0e\x01"))
def test_a_missing_checksum_is_put_in_front(block: bytes) -> None:
    entry = with_checksum(block)
    assert entry[6:] == block
    assert checksum_ok(entry)
    assert with_checksum(entry) == entry


@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_flipped_bit_is_noticed(block: bytes, data: st.DataObject) -> None:
    entry = bytearray(b"\x0e\x01" + crc32c(block).to_bytes(4, "big") + block)
    assert checksum_ok(bytes(entry))
    index = data.draw(st.integers(0, len(entry) - 1))
    entry[index] ^= 1 << data.draw(st.integers(0, 7))
    assert not checksum_ok(bytes(entry))


@given(st.binary(max_size=5))
def test_a_frame_that_is_too_short_has_no_checksum(data: bytes) -> None:
    assert not checksum_ok(data)


def test_a_wrong_checksum_is_kept_as_it_came() -> None:
    assert with_checksum(b"\x0e\x01\0\0\0\0rest") == b"\x0e\x01\0\0\0\0rest"
