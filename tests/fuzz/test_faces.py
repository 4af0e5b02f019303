"""A small run of `make fuzz`: 2,000 generated inputs for each face."""

from __future__ import annotations

import pytest

from tests.fuzz.faces import FACES, Face
from tests.fuzz.runs import Finding, run_face


@pytest.mark.parametrize("face", FACES, ids=[face.name for face in FACES])
def test_generated_inputs_are_understood_or_refused(face: Face) -> None:
    assert run_face(face, inputs=2000, seed=7).inputs == 2000


def test_an_undocumented_error_is_a_finding_with_its_input() -> None:
    def take(data: bytes) -> None:
        raise KeyError(data)

    face = Face(name="broken", generate=lambda random: random.randbytes(3), take=take)
    with pytest.raises(Finding, match="KeyError") as found:
        run_face(face, inputs=1, seed=1)
    assert len(str(found.value).splitlines()[-1]) == 6
