"""Settings of Hypothesis models: few examples in `make test`, many in `make soak`."""

from __future__ import annotations

import os

from hypothesis import Phase, settings

__all__ = ["model_settings"]


def model_settings(*, examples: int, steps: int = 50) -> settings:
    """Return settings for `examples` runs of at most `steps` steps. VELA_SOAK_EXAMPLES overrides `examples`.

    VELA_SHRINK=0 skips the search for the shortest failing run, which `make mutate` does not need.
    """
    return settings(
        phases=[
            phase for phase in Phase if phase is not Phase.shrink or os.environ.get("VELA_SHRINK") != "0"
        ],
        max_examples=int(os.environ.get("VELA_SOAK_EXAMPLES", "0")) or examples,
        stateful_step_count=steps,
        deadline=None,
    )
