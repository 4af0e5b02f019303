"""The interfaces through which a connection passes the broker's commands to consumers and producers.

They are generic in the connection's type, so that the module of the connection can import this module.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from vela.errors import VelaError
from vela.wire.binary import replies

__all__ = ["ConsumerSink", "ProducerSink"]

C = TypeVar("C", contravariant=True)


class ConsumerSink(Protocol[C]):
    """A consumer. Its methods run on the event loop and must not wait. An error closes the connection."""

    def on_message(self, connection: C, reply: replies.Message) -> None:
        """Process a delivered entry."""

    def on_closed_by_broker(self, connection: C) -> None:
        """The broker closed this consumer, which is no longer in `connection.consumers`."""

    def on_active_change(self, connection: C, active: bool) -> None:
        """On Failover, this consumer became active or inactive."""

    def on_end_of_topic(self, connection: C) -> None:
        """The topic is terminated, and all its messages are acknowledged."""

    def on_connection_lost(self, connection: C, error: VelaError) -> None:
        """The connection is lost. The sink gets no more calls from it."""


class ProducerSink(Protocol[C]):
    """A producer. The rules of `ConsumerSink` apply."""

    def on_receipt(self, connection: C, reply: replies.Receipt) -> None:
        """The broker stored an entry."""

    def on_send_error(self, connection: C, reply: replies.SendError) -> None:
        """The broker refused an entry."""

    def on_closed_by_broker(self, connection: C) -> None:
        """The broker closed this producer, which is no longer in `connection.producers`."""

    def on_connection_lost(self, connection: C, error: VelaError) -> None:
        """The connection is lost. The sink gets no more calls from it."""
