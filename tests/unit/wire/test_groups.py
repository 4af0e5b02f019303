"""Groups of a batch, encoded by hand: the same bytes as protobuf's own."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from vela.wire.entry.groups import append_group, append_plain_group
from vela.wire.pb.vela_pulsar_pb2 import SingleMessageMetadata

uint64 = st.integers(0, (1 << 63) - 1)


def expected(metadata: SingleMessageMetadata, payload: bytes) -> bytes:
    serialized = metadata.SerializeToString(deterministic=True)
    return struct.pack(">I", len(serialized)) + serialized + payload


@given(st.binary(max_size=300), uint64)
def test_a_plain_message_has_the_bytes_that_protobuf_writes(payload: bytes, sequence_id: int) -> None:
    buffer = bytearray(b"before")
    append_plain_group(buffer, payload, sequence_id)
    metadata = SingleMessageMetadata(payload_size=len(payload), sequence_id=sequence_id)
    assert buffer == b"before" + expected(metadata, payload)


@given(
    st.binary(max_size=300),
    uint64,
    st.dictionaries(st.text(max_size=200), st.text(max_size=200), max_size=3),
    st.none() | st.text(max_size=200),
    st.booleans(),
    uint64,
    st.none() | st.binary(max_size=200),
    st.booleans(),
)
def test_a_message_with_every_field_has_the_bytes_that_protobuf_writes(
    payload: bytes,
    sequence_id: int,
    properties: dict[str, str],
    key: str | None,
    key_b64: bool,
    event_time_ms: int,
    ordering_key: bytes | None,
    null_value: bool,
) -> None:
    buffer = bytearray()
    append_group(
        buffer,
        payload,
        sequence_id,
        properties=properties,
        key=key,
        key_b64=key_b64,
        event_time_ms=event_time_ms,
        ordering_key=ordering_key,
        null_value=null_value,
    )
    metadata = SingleMessageMetadata(payload_size=len(payload), sequence_id=sequence_id)
    for name, value in properties.items():
        metadata.properties.add(key=name, value=value)
    if key is not None:
        metadata.partition_key = key
    if key_b64:
        metadata.partition_key_b64_encoded = True
    if event_time_ms:
        metadata.event_time = event_time_ms
    if ordering_key is not None:
        metadata.ordering_key = ordering_key
    if null_value:
        metadata.null_value = True
    assert buffer == expected(metadata, payload)
