"""Whole Velas. They end with this folder: one that idles beside the rest of a run takes processor time from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.vela import VelaProcess, made_data, started_vela


@pytest.fixture(scope="package")
def vela_data() -> Iterator[Path]:
    """What the Velas of this folder start on: each copies it."""
    with made_data() as folder:
        yield folder


@pytest.fixture(scope="package")
def shared_vela(vela_data: Path) -> Iterator[VelaProcess]:
    """A whole Vela shared by tests of this folder: give topics names of the test's own, kill nothing."""
    with started_vela(data=vela_data) as process:
        yield process


@pytest.fixture(scope="module")
def vela(vela_data: Path) -> Iterator[VelaProcess]:
    """A whole Vela of the module's own, started as `make run` starts it a second time: tests may stop and kill it."""
    with started_vela(data=vela_data) as process:
        yield process
