"""Feed a face with generated inputs, and watch errors, time and memory."""

from __future__ import annotations

import random
import resource
import time
from dataclasses import dataclass
from typing import Final

from tests.fuzz.faces import Face

__all__ = ["Finding", "Run", "run_face"]

# The limit for one input. Milliseconds are usual, and a parser that backtracks would take minutes.
MOST_CPU_S: Final = 2.0
MOST_GROWTH_BYTES: Final = 128 << 20  # of this process, over all inputs


class Finding(AssertionError):
    """An input that a face neither understood nor refused as documented."""

    def __init__(self, face: Face, seed: int, number: int, data: bytes, reason: str) -> None:
        super().__init__(f"{face.name}, seed {seed}, input {number}: {reason}\n{data.hex()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a run without a finding."""

    face: str
    seed: int
    inputs: int
    inputs_per_s: float
    slowest_ms: float  # CPU time of one input
    growth_bytes: int  # of this process

    def __str__(self) -> str:
        return (
            f"{self.face:10} seed {self.seed}: {self.inputs:,} inputs, {self.inputs_per_s:,.0f}/s, "
            f"slowest {self.slowest_ms:.1f} ms, grew by {self.growth_bytes >> 20} MiB"
        )


def run_face(face: Face, *, inputs: int, seed: int) -> Run:
    """Feed the face with this many generated inputs. The same seed generates the same inputs. Raises Finding."""
    chance = random.Random(f"{face.name} {seed}")
    began_s, slowest_s, before_bytes = time.perf_counter(), 0.0, _peak_bytes()
    for number in range(inputs):
        data = face.generate(chance)
        cpu_s = time.thread_time()
        try:
            face.take(data)
        except Exception as error:
            raise Finding(face, seed, number, data, repr(error)) from error
        cpu_s = time.thread_time() - cpu_s
        if cpu_s > slowest_s:
            slowest_s = cpu_s
            if cpu_s > MOST_CPU_S:
                raise Finding(face, seed, number, data, f"it took {cpu_s:.1f} s of the processor")
        if not number & 1023 and _peak_bytes() - before_bytes > MOST_GROWTH_BYTES:
            raise Finding(face, seed, number, data, "memory grew too much up to this input")
    return Run(
        face=face.name,
        seed=seed,
        inputs=inputs,
        inputs_per_s=inputs / (time.perf_counter() - began_s),
        slowest_ms=slowest_s * 1000,
        growth_bytes=_peak_bytes() - before_bytes,
    )


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
