"""How many examples a Hypothesis model runs: some in `make test`, many in `make soak`."""

from __future__ import annotations

import os

from hypothesis import settings

__all__ = ["model_settings"]


def model_settings(*, examples: int, steps: int = 50) -> settings:
    """`examples` runs of at most `steps` steps; VELA_SOAK_EXAMPLES replaces their number."""
    return settings(
        max_examples=int(os.environ.get("VELA_SOAK_EXAMPLES", "0")) or examples,
        stateful_step_count=steps,
        deadline=None,
    )
