"""Fixtures of the doors' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.doors.daphne_thread import DaphneThread


@pytest.fixture(scope="session")
def daphne() -> Iterator[DaphneThread]:
    """Daphne's reactor, running in a thread until the session ends."""
    thread = DaphneThread()
    yield thread
    thread.end()
