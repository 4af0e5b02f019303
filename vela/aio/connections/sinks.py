"""Whom a connection tells what the broker says about a consumer or a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vela.errors import VelaError
from vela.wire.binary import replies

if TYPE_CHECKING:
    from vela.aio.connections.connection import Connection

__all__ = ["ConsumerSink", "ProducerSink"]


class ConsumerSink(Protocol):
    """All are called on the event loop, must not wait, and should not raise: what they raise ends the connection."""

    def on_message(self, connection: Connection, reply: replies.Message) -> None:
        """An entry has come."""

    def on_closed_by_broker(self, connection: Connection) -> None:
        """The broker closed this consumer; it is no more in `connection.consumers`."""

    def on_active_change(self, connection: Connection, active: bool) -> None:
        """On Failover: this consumer is the one that receives, or is not."""

    def on_end_of_topic(self, connection: Connection) -> None:
        """The topic is terminated and everything was sent."""

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        """Nothing more comes over this connection; the last call from it."""


class ProducerSink(Protocol):
    """As `ConsumerSink`."""

    def on_receipt(self, connection: Connection, reply: replies.Receipt) -> None:
        """An entry is stored."""

    def on_send_error(self, connection: Connection, reply: replies.SendError) -> None:
        """An entry is not stored."""

    def on_closed_by_broker(self, connection: Connection) -> None:
        """The broker closed this producer; it is no more in `connection.producers`."""

    def on_connection_lost(self, connection: Connection, error: VelaError) -> None:
        """Nothing more comes over this connection; the last call from it."""
