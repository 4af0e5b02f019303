"""The Vela that these tests share. It stops after them, so that it takes no CPU time from other tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.vela import VelaProcess, started_vela


@pytest.fixture(scope="package")
def shared_vela(vela_data: Path) -> Iterator[VelaProcess]:
    """A whole Vela shared by the tests of this folder. Each test must use topics that no other test uses.

    A test may kill a process of this Vela, if the test then waits until clients can continue.
    """
    with started_vela({"VELA_LIFETIME_CHECK_S": "2"}, data=vela_data) as process:  # 10 is the default
        yield process
