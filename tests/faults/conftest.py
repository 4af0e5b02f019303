"""`make faults` runs these tests. `make test` does not: most wait until an alert's condition has held long enough."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.faults import Place
from tests.support.vela import VelaProcess

collect_ignore_glob = [] if os.environ.get("VELA_FAULTS") else ["test_*.py"]


@pytest.fixture
def place(vela: VelaProcess, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A whole Vela, and a topic that no other test uses."""
    with ExitStack() as stack:
        yield Place(vela=vela, topic=f"fault-{abs(hash(request.node.name)):x}", stack=stack)
