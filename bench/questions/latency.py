"""How long does a message take from its intended send time to its consumer, at 1,000 a second?"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bench.ceilings.echo import echo_server
from bench.ceilings.tcp_echo import echo_latency, tcp_echo_server
from bench.figures import Figure, Goal
from bench.load.end_to_end import binary_latency, json_latency, websocket_latency
from bench.load.open_loop import Latencies, run_exactly
from bench.load.page_reloader import reloading
from bench.setting import Setting

__all__ = ["ask"]

PER_S = 1000.0
PAYLOAD_BYTES = 1024
_P50 = Goal(at_most=4.0)
_P99 = Goal(at_most=20.0)

_Measure = Callable[..., Coroutine[Any, Any, Latencies]]


def ask(setting: Setting) -> list[Figure]:
    """Measure each protocol, alone and while a console page is reloaded; then bare servers on the same machine."""
    figures: list[Figure] = []
    for face, measure, port in (
        ("binary", binary_latency, setting.pulsar_port),
        ("WebSocket", websocket_latency, setting.http_port),
    ):
        for watched in (False, True):
            figures += _face(setting, face, measure, port, watched=watched)
    figures += _ceilings(setting)
    return figures


def _face(setting: Setting, face: str, measure: _Measure, port: int, *, watched: bool) -> list[Figure]:
    label = f"{face}, {'console page reloading' if watched else 'alone'}"
    runs: list[Latencies] = []
    note = ""
    for _ in range(setting.repeats):
        topic = setting.fresh_topic("latency")
        page = f"/t/{topic.replace('://', '/')}"
        looking: AbstractContextManager[list[str]] = (
            reloading(setting.vela, page) if watched else nullcontext([])
        )
        setting.vela.manage("createtopic", topic)  # so that the page exists before the first message
        with looking as report:
            runs.append(run_exactly(measure(port, topic, **_load(setting))))
        note = "; ".join([f"max {max(runs[-1].values_ms):.0f} ms", *report])
        setting.say(f"latency, {label}: {runs[-1]} {' '.join(report)}")
    return _figures(label, runs, note, p50=_P50, p99=_P99)


def _ceilings(setting: Setting) -> list[Figure]:
    with tcp_echo_server() as port:
        tcp = [run_exactly(echo_latency(port, **_load(setting))) for _ in range(setting.repeats)]
    with echo_server() as port:
        web = [
            run_exactly(json_latency(port, f"/echo/{number}", f"/push/{number}", **_load(setting)))
            for number in range(setting.repeats)
        ]
    setting.say(f"latency, bare TCP echo: {tcp[-1]}")
    setting.say(f"latency, bare WebSocket push: {web[-1]}")
    return [*_figures("bare TCP echo", tcp, ""), *_figures("bare WebSocket push", web, "")]


def _load(setting: Setting) -> dict[str, Any]:
    return {
        "payload_bytes": PAYLOAD_BYTES,
        "per_s": PER_S,
        "warm_up_s": setting.warm_up_s,
        "run_s": setting.run_s,
    }


def _figures(
    label: str, runs: list[Latencies], note: str, p50: Goal | None = None, p99: Goal | None = None
) -> list[Figure]:
    return [
        Figure(name=f"{label}, p50", unit="ms", runs=tuple(run.at(50) for run in runs), goal=p50),
        Figure(name=f"{label}, p99", unit="ms", runs=tuple(run.at(99) for run in runs), goal=p99, note=note),
    ]
