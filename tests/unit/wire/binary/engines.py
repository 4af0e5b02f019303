"""Client engines for tests."""

from __future__ import annotations

from broker.doors.binary.wire import answers
from vela.wire.binary.client import ClientEngine

LIMIT = 1_000_000
CONNECTED = answers.connected(server_version="Vela test", protocol_version=21, max_message_bytes=LIMIT)


def connected_engine() -> ClientEngine:
    engine = ClientEngine(client_version="Vela test")
    engine.connect()
    engine.receive(CONNECTED)
    return engine
