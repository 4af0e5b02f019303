"""How long does it take to move a cursor over a million entries?"""

from __future__ import annotations

import asyncio
import os

from bench.figures import Figure, Goal
from bench.load.act_caller import ActTimes, reset_times
from bench.load.consuming.drain import drain
from bench.load.messages import entries
from bench.load.publishing.binary import publish_count
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["ask"]

PAYLOAD_BYTES = 100
_GOAL = Goal(at_most=100.0)


def ask(setting: Setting) -> list[Figure]:
    """Reset cursors to the beginning: one that has acked everything, then one that has acked every second message."""
    count = setting.sized(1_000_000, 100_000)
    topic = setting.fresh_topic("reset")
    entry = entries.single(os.urandom(PAYLOAD_BYTES))
    port = setting.pulsar_port
    asyncio.run(publish_count(port, topic, entry, count, window=1000))
    figures: list[Figure] = []
    for name, must_ack in (("all acked", lambda _: True), ("every second acked", lambda n: n % 2 == 1)):
        times: list[ActTimes] = []
        for number in range(setting.repeats):
            subscription = f"{name.replace(' ', '-')}-{number}"
            # The consumer is Exclusive, because a Shared one gets no more once it has 50,000 unacked messages.
            asyncio.run(drain(port, topic, subscription, count, type_=SubType.EXCLUSIVE, must_ack=must_ack))
            times += reset_times(setting.vela, topic, subscription, 1, {"to": "earliest"})
            if times[-1].replayed_messages == 0:
                raise AssertionError("the reset replayed nothing: the cursor had not moved")
            setting.say(f"reset, {name}: {times[-1]}")
        figures += _figures(f"reset over {count:,}, {name}", times, _GOAL)
    # A reset that moves nothing shows how much of the time the round trips take.
    again = reset_times(setting.vela, topic, subscription, setting.repeats, {"to": "earliest"})
    figures += _figures("the same again, nothing to move", again, None)
    return figures


def _figures(name: str, times: list[ActTimes], goal: Goal | None) -> list[Figure]:
    return [
        Figure(
            name=f"{name}: plan + apply",
            unit="ms",
            runs=tuple(one.plan_ms + one.apply_ms for one in times),
            goal=goal,
            note=f"{times[-1].replayed_messages:,} messages to replay; round trips of the caller",
        ),
        Figure(
            name="  apply, request to result",
            unit="ms",
            runs=tuple(one.owner_ms for one in times),
        ),
    ]
