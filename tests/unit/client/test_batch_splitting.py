"""Cutting batches in runs gives the same messages and errors as parsing every message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.entries import group, metadata
from vela.wire.entry.batches import Message, group_head, split_batch
from vela.wire.errors import BatchCorrupt
from vela.wire.varint import signed64

_SEQUENCES = st.one_of(
    st.integers(0, 300),
    st.integers(16_300, 16_500),
    st.integers(2_097_000, 2_097_300),
    st.just((1 << 64) - 1),
)
_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "sequence_id": _SEQUENCES,
        "null_value": st.booleans(),
        "event_time": st.integers(0, 5),
        "compacted_out": st.booleans(),
        "partition_key": st.sampled_from(["", "k"]),
    },
)
_MEMBERS = st.lists(st.tuples(st.binary(max_size=3), _FIELDS), min_size=1, max_size=12)
_RUNS = st.builds(
    lambda size, first, count: [(b"x" * size, {"sequence_id": first + n}) for n in range(count)],
    st.sampled_from([0, 1, 100, 200, 20_000]),
    st.sampled_from([0, 100, 16_380, 2_097_100, 5_000_000_000]),
    st.integers(1, 60),
)


def one_by_one(payload: bytes, batch_size: int) -> list[tuple[int, bytes, int, bool, int, str | None]]:
    """Split a batch the slow way, one message after another."""
    found = []
    offset = 0
    for index in range(batch_size):
        single, start = group_head(payload, offset, index)
        offset = start + single.payload_size
        if single.payload_size < 0 or offset > len(payload):
            raise BatchCorrupt("beyond")
        if not single.compacted_out:
            sequence = signed64(single.sequence_id) if single.HasField("sequence_id") else 7 + index
            key = single.partition_key if single.HasField("partition_key") else None
            found.append((index, payload[start:offset], sequence, single.null_value, single.event_time, key))
    if offset != len(payload):
        raise BatchCorrupt("left over")
    return found


def seen(messages: list[Message]) -> list[tuple[int, bytes, int, bool, int, str | None]]:
    return [
        (each.batch_index, each.payload, each.sequence_id, each.null_value, each.event_time_ms, each.key)
        for each in messages
    ]


def split(payload: bytes, batch_size: int) -> list[Message]:
    messages: list[Message] = []
    split_batch(metadata(num_messages_in_batch=batch_size), payload, messages)
    return messages


@pytest.mark.row("S0.25")
@given(st.lists(st.one_of(_MEMBERS, _RUNS), min_size=1, max_size=3))
def test_runs_of_plain_messages_and_others_are_split_alike(
    parts: list[list[tuple[bytes, dict[str, object]]]],
) -> None:
    members = [member for part in parts for member in part]
    payload = b"".join(group(body, **fields) for body, fields in members)
    assert seen(split(payload, len(members))) == one_by_one(payload, len(members))


@pytest.mark.row("S0.15")
@given(_RUNS, st.integers(0, 400), st.integers(0, 255), st.integers(-1, 1))
def test_damage_is_noticed_as_when_parsing_one_by_one(
    run: list[tuple[bytes, dict[str, object]]], at: int, value: int, extra: int
) -> None:
    payload = bytearray(b"".join(group(body, **fields) for body, fields in run))
    payload[at % len(payload)] = value
    size = max(1, len(run) + extra)
    try:
        expected = one_by_one(bytes(payload), size)
    except BatchCorrupt:
        with pytest.raises(BatchCorrupt):
            split(bytes(payload), size)
    else:
        assert seen(split(bytes(payload), size)) == expected


def test_sequence_ids_written_in_a_longer_way_are_read() -> None:
    plain = group(b"x", sequence_id=5)
    longer = b"\x00\x00\x00\x05\x18\x01\x40\x85\x00" + b"y"
    assert seen(split(plain + longer + plain, 3)) == one_by_one(plain + longer + plain, 3)
    assert seen(split(longer * 3, 3)) == one_by_one(longer * 3, 3)


@pytest.mark.parametrize("before", [0, 1])
def test_a_removed_message_with_its_fields_in_another_order_begins_no_run(before: int) -> None:
    removed = b"\x00\x00\x00\x06\x18\x01\x40\x05\x20\x01" + b"x"
    payload = group(b"y", sequence_id=70_000) * before + removed * 2 + group(b"z", sequence_id=70_001)
    assert seen(split(payload, before + 3)) == one_by_one(payload, before + 3)


def test_messages_of_a_run_do_not_share_their_properties() -> None:
    messages = split(b"".join(group(b"x", sequence_id=n) for n in range(3)), 3)
    messages[1].properties["mine"] = "only"
    assert messages[2].properties == {}
