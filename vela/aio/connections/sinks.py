"""The interfaces through which a connection tells consumers and producers what the broker said.

They are generic in the connection, so that the connection can import them.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from vela.errors import VelaError
from vela.wire.binary import replies

__all__ = ["ConsumerSink", "ProducerSink"]

C = TypeVar("C", contravariant=True)


class ConsumerSink(Protocol[C]):
    """All are called on the event loop, must not wait, and should not raise: what they raise ends the connection."""

    def on_message(self, connection: C, reply: replies.Message) -> None:
        """An entry has come."""

    def on_closed_by_broker(self, connection: C) -> None:
        """The broker closed this consumer; it is no more in `connection.consumers`."""

    def on_active_change(self, connection: C, active: bool) -> None:
        """On Failover: this consumer is the one that receives, or is not."""

    def on_end_of_topic(self, connection: C) -> None:
        """The topic is terminated and everything was sent."""

    def on_connection_lost(self, connection: C, error: VelaError) -> None:
        """Nothing more comes over this connection; the last call from it."""


class ProducerSink(Protocol[C]):
    """As `ConsumerSink`."""

    def on_receipt(self, connection: C, reply: replies.Receipt) -> None:
        """An entry is stored."""

    def on_send_error(self, connection: C, reply: replies.SendError) -> None:
        """An entry is not stored."""

    def on_closed_by_broker(self, connection: C) -> None:
        """The broker closed this producer; it is no more in `connection.producers`."""

    def on_connection_lost(self, connection: C, error: VelaError) -> None:
        """Nothing more comes over this connection; the last call from it."""
