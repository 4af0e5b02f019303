"""What an entry's row says of it (S0.20)."""

from __future__ import annotations

from broker.core.entry import FLAG_BATCH
from broker.transports.entry_facts import entry_flags
from vela.wire.entry import OutgoingMessage, encode_batch, encode_single, parse_header


def test_s0_20_a_batch_count_makes_a_batch_even_of_one() -> None:
    one = encode_batch([OutgoingMessage(payload=b"x")], producer_name="p", sequence_id=0, publish_time_ms=1)
    single = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"x")
    assert entry_flags(parse_header(one)) == FLAG_BATCH
    assert entry_flags(parse_header(single)) == 0
