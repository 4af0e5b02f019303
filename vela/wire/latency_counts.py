"""Latencies counted in buckets that double in width: below 1 ms, 1 ms, 2 to 3 ms, 4 to 7 ms and so on.

The broker stores the counts of a period as a list. To join periods, add their lists. A percentile of the sum lies in
the right bucket, so it is wrong by less than a factor of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

__all__ = ["BUCKETS", "LONGEST_MS", "percentile_ms", "summed"]

BUCKETS: Final = 28  # a latency of n ms counts in bucket n.bit_length()
LONGEST_MS: Final = (1 << BUCKETS - 1) - 1  # 37 hours; longer latencies count as this one


def summed(counts: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of counts bucket by bucket. Lists may end early: missing buckets are 0."""
    return [sum(bucket) for bucket in zip_longest(*counts, fillvalue=0)]


def percentile_ms(counts: Sequence[int], share: float) -> int | None:
    """Return the latency in ms that `share` (0 to 1) of the latencies do not exceed; None if nothing was counted.

    Inside its bucket the latency is interpolated. Latencies below 1 ms are 0.
    """
    wanted, before = share * sum(counts), 0
    for bucket, count in enumerate(counts):
        if count and before + count >= wanted:
            least_ms = 1 << bucket >> 1
            return least_ms + round(least_ms * max(0.0, wanted - before) / count)
        before += count
    return None
