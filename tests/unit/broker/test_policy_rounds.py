"""When the rounds through the policies begin."""

from __future__ import annotations

from typing import Any, cast

from broker.tasks import BackgroundTasks
from broker.upkeep.policy_rounds import ROUND_MS, PolicyRounds
from tests.support.broker_harness import ManualClock

HOUR_MS = 3_600_000


class Duties:
    """Takes the place of a round's topics and duties, and counts the calls."""

    def __init__(self) -> None:
        self.rounds = self.visits = 0

    def all(self) -> list[Any]:
        """Return no topics."""
        return []

    async def take_surveys(self) -> None:
        """Count a round."""
        self.rounds += 1

    async def visit_idle_topics(self, after: int) -> int:
        """Count a visit."""
        self.visits += 1
        return after


async def test_rounds_go_on_when_the_clock_is_set_back() -> None:
    clock, tasks, duties = ManualClock(), BackgroundTasks(), Duties()
    rounds = PolicyRounds(
        *(cast("Any", duties), cast("Any", duties), cast("Any", duties), clock, tasks),
        is_ready=lambda: True,
        wheel_enabled=True,
    )

    async def turn() -> None:
        await rounds.turn()
        for task in list(tasks._tasks):
            await task

    await turn()
    clock.advance(ROUND_MS - 1)
    await turn()
    assert (duties.rounds, duties.visits) == (1, 1)
    clock.advance(-HOUR_MS)
    await turn()
    assert (duties.rounds, duties.visits) == (2, 2)
