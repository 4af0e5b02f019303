"""How many JSON messages a second, one in each frame, does the broker make durable?"""

from __future__ import annotations

import asyncio

from bench.ceilings.echo import echo_server
from bench.figures import Figure, Goal, ratio_percent
from bench.load.messages.json_frames import producer_path
from bench.load.websocket_load import publish_for
from bench.setting import Setting

__all__ = ["ask"]

PAYLOAD_BYTES = 1024
WINDOW = 64
_GOAL = Goal(at_least=8000.0)


def ask(setting: Setting) -> list[Figure]:
    """Publish to Vela and to the bare echo in turn."""
    reached: list[float] = []
    ceilings: list[float] = []
    note = ""

    def run(port: int, path: str) -> tuple[float, int]:
        published = asyncio.run(
            publish_for(
                port,
                path,
                payload_bytes=PAYLOAD_BYTES,
                window=WINDOW,
                warm_up_s=setting.warm_up_s,
                run_s=setting.run_s,
            )
        )
        return published.per_s, published.everything

    with echo_server() as echo_port:
        for _ in range(setting.repeats):
            cpu = setting.processes.cpu()
            per_s, messages = run(setting.http_port, producer_path(setting.fresh_topic("ws")))
            note = (setting.processes.cpu() - cpu).per(messages)
            reached.append(per_s)
            ceilings.append(run(echo_port, "/echo")[0])
            setting.say(f"websocket publish: {per_s:,.0f} msg/s; echo {ceilings[-1]:,.0f}; {note}")
    return [
        Figure(
            name="WebSocket JSON publish, 1 KB, durable",
            unit="msg/s",
            runs=tuple(reached),
            goal=_GOAL,
            note=f"window {WINDOW}; {note}",
        ),
        Figure(name="  bare echo, same server", unit="msg/s", runs=tuple(ceilings)),
        Figure(name="  of the bare echo", unit="%", runs=ratio_percent(reached, ceilings)),
    ]
