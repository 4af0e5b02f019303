"""How many messages a second does the broker deliver as JSON when five subscriptions read one topic?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bench.figures import Figure, Goal
from bench.load.fan_out import BATCH_MESSAGES, PAYLOAD_BYTES, FanIn, binary_batches, fan_out_for, json_singles
from bench.setting import Setting

__all__ = ["ask"]

SUBSCRIPTIONS = 5
_GOAL = Goal(at_least=40_000.0)


def ask(setting: Setting) -> list[Figure]:
    """Publish in binary batches, then with one JSON frame per message."""
    return [
        _figure(
            setting,
            "binary batches in",
            lambda topic: binary_batches(setting.pulsar_port, topic),
            _GOAL,
            f"published over TCP in batches of {BATCH_MESSAGES}, {PAYLOAD_BYTES} B a message",
        ),
        _figure(
            setting,
            "JSON messages in",
            lambda topic: json_singles(setting.http_port, topic),
            None,
            f"published as JSON, one frame per message, {PAYLOAD_BYTES} B",
        ),
    ]


def _figure(
    setting: Setting, name: str, open_: Callable[[str], Awaitable[FanIn]], goal: Goal | None, how: str
) -> Figure:
    runs: list[float] = []
    note = ""
    for _ in range(setting.repeats):
        topic = setting.fresh_topic("fan")
        cpu = setting.processes.cpu()
        per_s, delivered = asyncio.run(
            fan_out_for(
                setting.pulsar_port,
                setting.http_port,
                topic,
                open_,
                subscriptions=SUBSCRIPTIONS,
                warm_up_s=setting.warm_up_s,
                run_s=setting.run_s,
            )
        )
        note = (setting.processes.cpu() - cpu).per(delivered)
        runs.append(per_s)
        setting.say(f"fan out, {name}: {per_s:,.0f} msg/s out; {note} out")
    return Figure(
        name=f"{SUBSCRIPTIONS} JSON subscriptions of one topic, {name}",
        unit="msg/s",
        runs=tuple(runs),
        goal=goal,
        note=f"{how}; delivered in total; {note} out",
    )
