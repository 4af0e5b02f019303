"""The start of the broker's process."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from broker.conf import EXIT_LOCK_TAKEN, BrokerSettings
from broker.http_server import LimitedServer
from broker.process.ownership import BrokerAlreadyRuns
from broker.process.serving import CannotStart, _listen, _start


class SecondBroker:
    """A broker that finds the lock taken."""

    async def start(self) -> None:
        """Refuse as `Broker.start` does."""
        raise BrokerAlreadyRuns("another broker already runs on this database")


async def test_a_taken_lock_has_the_exit_code_after_which_a_supervisor_tries_again() -> None:
    with pytest.raises(CannotStart, match="another broker already runs") as refused:
        await _start(cast("Any", SecondBroker()), asyncio.Event())
    assert refused.value.exit_code == EXIT_LOCK_TAKEN


class OpenPort:
    """A listener for Pulsar's protocol whose port is free."""

    port = 6650

    async def start(self, host: str, port: int) -> None:
        """Do nothing."""


async def test_a_taken_http_port_has_the_exit_code_after_which_a_supervisor_tries_again() -> None:
    http = object.__new__(LimitedServer)
    cast("Any", http).http_factory = None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=rf"{port} \(Address already in use\)") as refused:
            await _listen(BrokerSettings(http_port=port), cast("Any", OpenPort()), cast("Any", http), None)
    assert refused.value.exit_code == 1
