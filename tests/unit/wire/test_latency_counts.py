"""Percentiles of counted latencies are in the right bucket, however the counts were added up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.subscription.ack_latencies import AckLatencies
from vela.wire.latency_counts import BUCKETS, LONGEST_MS, percentile_ms, summed

latencies = st.lists(st.integers(-5, 4 * LONGEST_MS) | st.integers(0, 100), min_size=1, max_size=50)


def counted(latencies_ms: list[int]) -> list[int]:
    counter = AckLatencies()
    for latency_ms in latencies_ms:
        counter.count(latency_ms, 1)
    counts = counter.take()
    assert counts is not None
    assert counter.take() is None
    assert len(counts) <= BUCKETS
    return counts


@given(st.lists(latencies, min_size=1, max_size=4), st.sampled_from((0.5, 0.95, 0.99)))
def test_a_percentile_is_in_the_bucket_of_the_true_one(groups: list[list[int]], share: float) -> None:
    found = percentile_ms(summed(map(counted, groups)), share)
    every = sorted(min(max(0, each), LONGEST_MS) for group in groups for each in group)
    true = every[next(at for at in range(len(every)) if at + 1 >= share * len(every))]
    assert found is not None
    low = 1 << true.bit_length() >> 1
    assert low <= found <= 2 * low


def test_nothing_counted_has_no_percentile() -> None:
    assert percentile_ms([], 0.5) is None
    assert AckLatencies().take() is None


def test_percentiles_rise_within_a_bucket() -> None:
    counts = summed([[0] * 7 + [100]])  # 64 to 127 ms
    assert [percentile_ms(counts, share) for share in (0.0, 0.5, 0.95, 1.0)] == [64, 96, 125, 128]
