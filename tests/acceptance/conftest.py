"""The Vela that these tests share. It ends with them: beside the rest of a run it would take 9 % of a core to idle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.vela import VelaProcess, started_vela


@pytest.fixture(scope="package")
def shared_vela(vela_data: Path) -> Iterator[VelaProcess]:
    """A whole Vela shared by tests of this folder: give topics names of the test's own.

    A test may kill a process of it, if it waits until clients can go on.
    """
    with started_vela({"VELA_LIFETIME_CHECK_S": "2"}, data=vela_data) as process:  # not 10: tests wait for it
        yield process
