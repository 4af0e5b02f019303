"""How much do a hundred thousand ack holes slow down a consumer that receives the messages after them?

An ack hole is an unacked message before an acked one.
"""

from __future__ import annotations

import asyncio

from bench.figures import Figure, Goal, ratio_percent
from bench.load.consuming.holed_drain import holed_drain
from bench.load.messages.numbered import PAYLOAD_BYTES, numbered_entries
from bench.load.publishing.binary import publish_each
from bench.setting import Setting

__all__ = ["ask"]

_GOAL = Goal(at_least=90.0)
_HELD_BACK = 200_000  # messages; every second one is acked


def ask(setting: Setting) -> list[Figure]:
    """Use one topic, with two new subscriptions for each run; both are timed over the same messages."""
    timed = setting.sized(300_000, 60_000)
    holed = setting.sized(_HELD_BACK, _HELD_BACK // 2)
    messages = holed + timed
    topic = setting.fresh_topic("holes")
    port = setting.pulsar_port
    asyncio.run(publish_each(port, topic, numbered_entries(), messages, window=1000))
    without: list[float] = []
    behind: list[float] = []
    note = note_without = ""

    def run(subscription: str, *, leaves_holes: bool) -> tuple[float, str]:
        drain = holed_drain(
            port,
            topic,
            subscription,
            messages,
            holed=holed,
            leaves_holes=leaves_holes,
            cpu=setting.processes.cpu,
        )
        return asyncio.run(drain)

    for number in range(setting.repeats):
        rate, note_without = run(f"none-{number}", leaves_holes=False)
        without.append(rate)
        rate, note = run(f"holes-{number}", leaves_holes=True)
        behind.append(rate)
        setting.say(f"ack holes: {behind[-1]:,.0f} msg/s, {note}; without {without[-1]:,.0f}, {note_without}")
    return [
        Figure(
            name=f"drain behind {holed // 2:,} ack holes, {PAYLOAD_BYTES} B",
            unit="msg/s",
            runs=tuple(behind),
            note=f"{timed:,} single messages, Exclusive, each acked; {note}",
        ),
        Figure(name="  without holes", unit="msg/s", runs=tuple(without), note=note_without),
        Figure(name="  of the rate without", unit="%", runs=ratio_percent(behind, without), goal=_GOAL),
    ]
