"""Drain a stored backlog with eight consumers of one subscription type, and with one Exclusive consumer."""

from __future__ import annotations

import asyncio

from bench.figures import Figure, Goal, ratio_percent
from bench.load.consuming.spread_drain import spread_drain
from bench.load.messages.numbered import PAYLOAD_BYTES, numbered_entries
from bench.load.publishing.binary import publish_each
from bench.setting import Setting
from vela.wire.binary.enums import SubType

__all__ = ["CONSUMERS", "compared"]

CONSUMERS = 8
_GOAL = Goal(at_least=50.0)


def compared(setting: Setting, type_: SubType, *, keys: int = 0) -> list[Figure]:
    """Use one topic, with two new subscriptions for each run. With `keys`, also check the order of each key."""
    messages = setting.sized(300_000, 60_000)
    name = type_.name.title()
    topic = setting.fresh_topic(name.lower())
    port = setting.pulsar_port
    asyncio.run(publish_each(port, topic, numbered_entries(keys=keys), messages, window=1000))
    alone: list[float] = []
    spread: list[float] = []
    notes = ["", ""]

    def run(subscription: str, type_: SubType, consumers: int) -> tuple[float, str]:
        cpu = setting.processes.cpu()
        per_s = asyncio.run(
            spread_drain(
                port,
                topic,
                subscription,
                messages,
                type_=type_,
                consumers=consumers,
                acks_at_random=consumers > 1,
                keys=keys,
            )
        )
        return per_s, (setting.processes.cpu() - cpu).per(messages)

    for number in range(setting.repeats):
        per_s, notes[0] = run(f"exclusive-{number}", SubType.EXCLUSIVE, 1)
        alone.append(per_s)
        per_s, notes[1] = run(f"spread-{number}", type_, CONSUMERS)
        spread.append(per_s)
        setting.say(
            f"{name}: {spread[-1]:,.0f} msg/s, {notes[1]}; Exclusive: {alone[-1]:,.0f} msg/s, {notes[0]}"
        )
    of_keys = f", {keys:,} keys" if keys else ""
    return [
        Figure(
            name=f"{name}, {CONSUMERS} consumers, acks at random",
            unit="msg/s",
            runs=tuple(spread),
            note=f"{messages:,} single messages of {PAYLOAD_BYTES} B{of_keys}; {notes[1]}",
        ),
        Figure(name="  one Exclusive consumer", unit="msg/s", runs=tuple(alone), note=notes[0]),
        Figure(name="  of the Exclusive rate", unit="%", runs=ratio_percent(spread, alone), goal=_GOAL),
    ]
