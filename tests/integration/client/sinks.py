"""A stand-in for a consumer or a producer that only records its events."""

from __future__ import annotations

from typing import Any

from vela.aio.connections.connection import Connection
from vela.errors import VelaError
from vela.wire.binary import replies

__all__ = ["Sink"]


class Sink:
    """Receives the events of consumers and producers from a connection, and records them in `told`."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_message(self, connection: Connection, reply: replies.Message) -> None:
        self.told.append(("message", reply.entry_id, reply.entry_block))

    def on_receipt(self, connection: Connection, reply: replies.Receipt) -> None:
        self.told.append(("receipt", reply.sequence_id, reply.entry_id))

    def on_send_error(self, connection: Connection, reply: replies.SendError) -> None:
        self.told.append(("send error", reply.sequence_id, reply.code))

    def on_closed_by_broker(self, connection: Connection) -> None:
        self.told.append(("closed",))

    def on_active_change(self, connection: Connection, active: bool) -> None:
        self.told.append(("active", active))

    def on_end_of_topic(self, connection: Connection) -> None:
        self.told.append(("end",))

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        self.told.append(("lost", type(error)))
