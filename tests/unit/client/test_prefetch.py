"""When Vela says that a consumer hoards."""

from __future__ import annotations

import logging

import pytest

from tests.support.manual_timers import ManualTimers
from vela.aio.consumers.warnings import PrefetchWatch
from vela.core.consuming.prefetch import LOOK_MS, Prefetch


@pytest.mark.row("S4.26")
@pytest.mark.parametrize(
    ("queued", "taken", "hoards"),
    [
        (1000, 0, True),
        (1000, 400, True),
        (1000, 600, False),
        (10, 0, False),
        (0, 0, False),
        (1000, -4000, False),  # a topic with 4000 taken messages has left the consumer
    ],
)
def test_a_queue_that_takes_more_than_a_minute_is_hoarding(queued: int, taken: int, hoards: bool) -> None:
    prefetch = Prefetch()
    prefetch.hoards(queued=0, taken=5000)
    assert prefetch.hoards(queued=queued, taken=5000 + taken) is hoards


class Slow:
    """A consumer whose application takes nothing from its queue any more."""

    def __init__(self) -> None:
        self.taken = 0

    def topic(self) -> str:
        return "persistent://public/default/t"

    def subscription_name(self) -> str:
        return "s"

    def queued_and_taken(self) -> tuple[int, int]:
        return 1000, self.taken


@pytest.mark.row("S4.26")
def test_hoarding_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    timers, consumer = ManualTimers(), Slow()
    watch = PrefetchWatch(consumer, timers)
    with caplog.at_level(logging.WARNING, "vela"):
        consumer.taken = 900
        timers.advance(LOOK_MS)
        assert caplog.messages == []
        timers.advance(10 * LOOK_MS)
    assert len(caplog.messages) == 1
    assert "the 1000 messages in its queue" in caplog.messages[0]
    assert "receiver_queue_size" in caplog.messages[0]
    watch.close()
    watch.close()
    assert timers.running == 0
