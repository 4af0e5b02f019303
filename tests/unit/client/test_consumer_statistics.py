"""Statistics of several consumers as one, and rates."""

from __future__ import annotations

from typing import Any

from vela.core.consuming.statistics import ConsumerStatistics, rate_per_s


def of_one(times: int, **changes: Any) -> ConsumerStatistics:
    return ConsumerStatistics(
        **{
            "messages_received": times,
            "bytes_received": 10 * times,
            "messages_delivered": 100 * times,
            "messages_waiting": 0,
            "permits_available": 1000 * times,
            "receives_failed": 3 * times,
            "entries_discarded": {},
            "entries_stale": 5 * times,
            **changes,
        }
    )


def test_several_consumers_are_summed_and_share_one_queue() -> None:
    parts = [
        of_one(1, entries_discarded={"CHECKSUM_MISMATCH": 1}),
        of_one(2, entries_discarded={"CHECKSUM_MISMATCH": 2, "DECOMPRESSION_ERROR": 4}),
    ]
    assert ConsumerStatistics.total(parts, waiting=7) == of_one(
        3,
        messages_waiting=7,
        permits_available=2993,
        entries_discarded={"CHECKSUM_MISMATCH": 3, "DECOMPRESSION_ERROR": 4},
    )


def test_a_rate_is_the_difference_over_the_elapsed_time() -> None:
    assert rate_per_s(10, 40, 1.5) == 20.0
    assert rate_per_s(10, 40, 0.5) == 60.0
    assert rate_per_s(10, 40, 0.0) == 0.0
    assert rate_per_s(40, 10, 1.5) == 0.0
