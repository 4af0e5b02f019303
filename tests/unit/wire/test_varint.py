"""Varints: the tables, compared with the plain definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.wire import varint
from vela.wire.pb.vela_pulsar_pb2 import CommandFlow

UINT64 = st.integers(0, 2**64 - 1)


@given(UINT64 | st.sampled_from([0, 127, 128, 2**14 - 1, 2**14, 2**28 - 1, 2**28, 2**63, 2**64 - 1]))
def test_encode_agrees_with_protobuf(value: int) -> None:
    assert b"\x08" + varint.encode(value) == CommandFlow(consumer_id=value).SerializePartialToString()


@given(UINT64, st.binary(max_size=3), st.binary(max_size=3))
def test_a_decoded_varint_equals_the_encoded_number_at_any_place(
    value: int, before: bytes, after: bytes
) -> None:
    encoded = varint.encode(value)
    data = before + encoded + after
    assert varint.decode(data, len(before)) == (value, len(before) + len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_negative_number_travels_as_its_complement(value: int) -> None:
    decoded, _ = varint.decode(varint.encode(value), 0)
    assert varint.signed64(decoded) == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 11])
def test_decode_refuses_an_unterminated_varint(data: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        varint.decode(data, 0)
