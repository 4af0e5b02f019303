"""A message goes to the partition that Apache's clients choose for its key. Without a key, it goes to the next one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vela.core.producing.batching import BatchLimits
from vela.core.producing.key_hash import boost_hash, key_hash
from vela.core.producing.outgoing import Outgoing
from vela.core.producing.routing import RoundRobin, SinglePartition
from vela.options import HashingScheme

BY_APACHES_PYTHON_CLIENT = {
    "a": 93,
    "b": 3539,
    "ab": 1347,
    "abc": 321,
    "abcd": 3473,
    "abcde": 3069,
    "abcdefgh": 303,
    "abcdefghi": 493,
    "order-123456789": 3746,
    "key-1": 2633,
    "é": 1842,
    "日本語 key": 3353,
}
"""The partition that Apache's client 3.13 chose for each key on a topic of 4,093 partitions."""

PLAIN = Outgoing(b"0123456789")


@pytest.mark.parametrize(("key", "partition"), BY_APACHES_PYTHON_CLIENT.items())
def test_the_default_hash_is_that_of_apaches_python_client(key: str, partition: int) -> None:
    assert boost_hash(key) % 4093 == partition


@given(st.text(max_size=30), st.sampled_from(HashingScheme), st.integers(1, 100))
def test_a_key_stays_where_it_is_under_either_routing(
    key: str, scheme: HashingScheme, partitions: int
) -> None:
    hash_key = key_hash(scheme)
    message = Outgoing(b"x", key=key)
    expected = hash_key(key) % partitions
    assert 0 <= hash_key(key) < 1 << 31
    in_turn = RoundRobin(hash_key, seed=3, limits=BatchLimits(), delay_ms=10)
    one = SinglePartition(hash_key, seed=4)
    for now_ms in (0, 100):
        assert in_turn.partition(message, partitions, now_ms) == expected
        assert one.partition(message, partitions, now_ms) == expected


def test_one_partition_is_chosen_once_and_stays_when_others_are_added() -> None:
    router = SinglePartition(boost_hash, seed=14)
    assert [router.partition(PLAIN, partitions, 0) for partitions in (4, 4, 8)] == [2, 2, 2]


def test_without_batches_partitions_take_turns() -> None:
    router = RoundRobin(boost_hash, seed=0, limits=None)
    assert [router.partition(PLAIN, 3, 0) for _ in range(6)] == [1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("limits", "steps_ms", "expected"),
    [
        (BatchLimits(max_messages=3), [0] * 7, [0, 0, 0, 1, 1, 1, 2]),
        (BatchLimits(max_bytes=25), [0] * 5, [0, 0, 1, 1, 2]),
        (BatchLimits(), [0, 9, 10, 19, 20], [0, 0, 1, 1, 2]),
    ],
    ids=["count", "bytes", "delay"],
)
def test_with_batches_a_partition_keeps_its_turn_until_the_batch_is_over(
    limits: BatchLimits, steps_ms: list[int], expected: list[int]
) -> None:
    router = RoundRobin(boost_hash, seed=0, limits=limits, delay_ms=10)
    assert [router.partition(PLAIN, 3, now_ms) for now_ms in steps_ms] == expected
