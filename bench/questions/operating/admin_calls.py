"""How much do fifty calls of the admin API a second delay messages at 200 and at 1,000 a second?"""

from __future__ import annotations

from functools import partial

from bench.figures import Figure
from bench.load.admin_caller import calling
from bench.questions.operating.pairs import measured
from bench.setting import Setting

__all__ = ["ask"]

CALLS_PER_S = 50.0
RATES_PER_S = (200.0, 1000.0)


def ask(setting: Setting) -> list[Figure]:
    """Measure a producer and a consumer at each rate, alone and beside the calls, run by run."""
    calls = partial(calling, setting.http_port, per_s=CALLS_PER_S)
    figures: list[Figure] = []
    for per_s in RATES_PER_S:
        rate = f"{per_s:,.0f} msg/s"
        pairs = measured(setting, f"admin calls, {rate}", calls, per_s=per_s)
        figures += [
            *pairs.figures(
                alone=f"{rate}, p99 without admin calls", beside="p99 beside 50 admin calls a second"
            ),
            Figure(
                name="  longest wait beside them",
                unit="ms",
                runs=tuple(max(run.values_ms) for run in pairs.beside),
            ),
        ]
    return figures
