"""The pause after compactions that failed."""

from __future__ import annotations

from broker.core.compaction.retry import retry_pause_ms

MINUTE_MS = 60_000


def test_each_failure_doubles_the_pause_up_to_six_hours() -> None:
    pauses = [retry_pause_ms(failures) for failures in range(1, 100)]
    assert pauses[:3] == [2 * MINUTE_MS, 4 * MINUTE_MS, 8 * MINUTE_MS]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 360 * MINUTE_MS
