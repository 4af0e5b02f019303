"""The benchmark's batches are what Apache's client makes."""

from __future__ import annotations

import pytest

from bench.load.messages import entries
from vela.wire.entry import decode_messages, parse_header


@pytest.mark.parametrize(("payload_bytes", "messages"), [(100, 1000), (1024, 128), (200_000, 1)])
def test_a_batch_is_full_by_messages_or_by_bytes(payload_bytes: int, messages: int) -> None:
    batch = entries.batch(payload_bytes)
    assert batch.messages == messages
    assert parse_header(batch.data).messages == messages
    members = decode_messages(batch.data, max_message_bytes=16 * 1024 * 1024)
    assert {len(member.payload) for member in members} == {payload_bytes}
    # The payloads differ, so they do not compress.
    assert len({member.payload for member in members}) == messages
