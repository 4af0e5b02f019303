"""Slots and partitions of keys."""

from __future__ import annotations

from broker.core.hash_slots import slot_of_key
from broker.doors.websocket.json.options import HashingScheme, RoutingMode
from broker.doors.websocket.producer.partition_choice import PartitionChoice
from broker.producers.key_hash import entry_slot
from vela.wire.entry import encode_single, parse_header


def test_slot_zero_does_not_exist() -> None:
    assert slot_of_key(b"") == 1
    assert slot_of_key(b"hello") == 0x248BFA47 % 65536


def test_an_entry_without_key_has_no_slot() -> None:
    plain = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"")
    keyed = encode_single(producer_name="p", sequence_id=0, publish_time_ms=1, payload=b"", key="hello")
    assert entry_slot(parse_header(plain)) is None
    assert entry_slot(parse_header(keyed)) == slot_of_key(b"hello")


def test_keys_choose_their_partition_and_others_stay_or_take_turns() -> None:
    single = PartitionChoice(4, routing=RoutingMode.SINGLE, hashing=HashingScheme.MURMUR3_32, first=2)
    turns = PartitionChoice(
        3, routing=RoutingMode.ROUND_ROBIN, hashing=HashingScheme.JAVA_STRING_HASH, first=2
    )
    assert [single.of(None) for _ in range(3)] == [2, 2, 2]
    assert [turns.of(None) for _ in range(4)] == [2, 0, 1, 2]
    assert single.of("hello") == (0x248BFA47 & 0x7FFFFFFF) % 4
    assert turns.of("hello") == 99162322 % 3
