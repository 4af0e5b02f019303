"""The short form of `make mutate`: a few patches, and one that nobody can notice."""

from __future__ import annotations

import random

from tests.matrix.mutate import draw, survivors
from tests.matrix.patches import Change, Patch, read_patches

COUNT = 3
HARMLESS = Patch(
    name="harmless",
    row="I1",
    tests=("tests/unit/core/test_timing_wheel.py::test_nonsense_is_refused",),
    changes=(
        Change(
            file="broker/core/timing_wheel.py", find="No clock inside.", replace="There is no clock inside."
        ),
    ),
)


def test_patches_are_noticed_and_a_change_that_breaks_nothing_is_not() -> None:
    seed = random.SystemRandom().randrange(10**9)
    patches = [patch for patch in read_patches() if patch.needs_nothing]
    verdicts = survivors([*draw(patches, COUNT, seed), HARMLESS])
    assert [(each.patch, each.complaint.partition(" ")[0]) for each in verdicts] == [("harmless", "not")], (
        seed
    )
