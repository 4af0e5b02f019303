"""How many examples a Hypothesis model runs: some in `make test`, many in `make soak`."""

from __future__ import annotations

import os

from hypothesis import Phase, settings

__all__ = ["model_settings"]


def model_settings(*, examples: int, steps: int = 50) -> settings:
    """`examples` runs of at most `steps` steps; VELA_SOAK_EXAMPLES replaces their number.

    VELA_SHRINK=0 leaves out the search for the shortest way to a failure: `make mutate` only asks whether there is one.
    """
    return settings(
        phases=[
            phase for phase in Phase if phase is not Phase.shrink or os.environ.get("VELA_SHRINK") != "0"
        ],
        max_examples=int(os.environ.get("VELA_SOAK_EXAMPLES", "0")) or examples,
        stateful_step_count=steps,
        deadline=None,
    )
