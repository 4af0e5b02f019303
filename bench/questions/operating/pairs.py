"""Measure a producer and a consumer, alone and beside an operator's requests, run by run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.figures import Figure, Goal
from bench.load.end_to_end import binary_latency
from bench.load.open_loop import Latencies, run_exactly
from bench.setting import Setting

__all__ = ["PAYLOAD_BYTES", "Pairs", "measured"]

PAYLOAD_BYTES = 1024
_MOVES = Goal(at_most=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Runs without and with the requests, and the last report of the program that makes them."""

    alone: tuple[Latencies, ...]
    beside: tuple[Latencies, ...]
    note: str

    def figures(self, *, alone: str, beside: str) -> list[Figure]:
        """Return both p99, under these names, and by how much the requests change it."""
        moved = zip(self.alone, self.beside, strict=True)
        return [
            Figure(name=alone, unit="ms", runs=tuple(run.at(99) for run in self.alone)),
            Figure(
                name=f"  {beside}", unit="ms", runs=tuple(run.at(99) for run in self.beside), note=self.note
            ),
            Figure(
                name="  p99 moves by",
                unit="ms",
                runs=tuple(with_.at(99) - without.at(99) for without, with_ in moved),
                goal=_MOVES,
            ),
        ]


def measured(
    setting: Setting,
    name: str,
    requests: Callable[[], AbstractContextManager[list[str]]],
    *,
    per_s: float = 1000.0,
) -> Pairs:
    """Measure messages of 1 KB without and with the requests. `requests` yields a list for its report at the end."""
    alone: list[Latencies] = []
    beside: list[Latencies] = []
    note = ""
    for _ in range(setting.repeats):
        alone.append(_latency(setting, per_s))
        setting.say(f"{name}, alone: {alone[-1]}")
        with requests() as report:
            beside.append(_latency(setting, per_s))
        (note,) = report
        setting.say(f"{name}, beside: {beside[-1]} {note}")
    return Pairs(alone=tuple(alone), beside=tuple(beside), note=note)


def _latency(setting: Setting, per_s: float) -> Latencies:
    return run_exactly(
        binary_latency(
            setting.pulsar_port,
            setting.fresh_topic("latency"),
            payload_bytes=PAYLOAD_BYTES,
            per_s=per_s,
            warm_up_s=setting.warm_up_s,
            run_s=setting.run_s,
        )
    )
