"""How many messages a second does the broker take, confirm, deliver and get acked as JSON over WebSocket?"""

from __future__ import annotations

import asyncio

from bench.ceilings.echo import echo_server
from bench.figures import Figure, Goal, ratio_percent
from bench.load.messages.json_frames import consumer_path, producer_path
from bench.load.websocket_load import cycle_for
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 1024
WINDOW = 64
_GOAL = Goal(at_least=5000.0)


def ask(setting: Setting) -> list[Figure]:
    """Run one producer and one consumer on Vela, then on a server that only passes frames on."""
    reached: list[float] = []
    ceilings: list[float] = []
    note = ""

    def run(port: int, producing: str, consuming: str) -> tuple[float, int]:
        cycled = asyncio.run(
            cycle_for(
                port,
                producing,
                consuming,
                payload_bytes=PAYLOAD_BYTES,
                window=WINDOW,
                warm_up_s=setting.warm_up_s,
                run_s=setting.run_s,
            )
        )
        return cycled.per_s, cycled.everything

    with echo_server() as echo_port:
        for number in range(setting.repeats):
            topic = setting.fresh_topic("ws")
            cpu = setting.processes.cpu()
            per_s, messages = run(setting.http_port, producer_path(topic), consumer_path(topic, "s"))
            note = (setting.processes.cpu() - cpu).per(messages)
            reached.append(per_s)
            ceilings.append(run(echo_port, f"/echo/{number}", f"/push/{number}")[0])
            setting.say(f"websocket cycle: {per_s:,.0f} msg/s; echo and push {ceilings[-1]:,.0f}; {note}")
    return [
        Figure(
            name="WebSocket JSON publish + delivery + ack, 1 KB",
            unit="msg/s",
            runs=tuple(reached),
            goal=_GOAL,
            note=f"window {WINDOW}; {note}",
        ),
        Figure(name="  bare echo and push, same server", unit="msg/s", runs=tuple(ceilings)),
        Figure(name="  of the bare echo and push", unit="%", runs=ratio_percent(reached, ceilings)),
    ]
