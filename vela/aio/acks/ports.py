"""What the acknowledgement code needs from its consumer and connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from vela.core.acks.batch_acks import Position

__all__ = ["AckLink", "AckOwner", "RedeliveryFilter"]


class AckLink(Protocol):
    """The part of a connection that acks need."""

    def write(self, *parts: bytes) -> None:
        """Send a command. Never waits."""

    def ask(self, build: Callable[[int], bytes], *, timeout_s: float | None) -> asyncio.Future[Any]:
        """Send the request that `build` makes from a request id, without waiting.

        The future has the answer. It fails with the broker's refusal, with Timeout, or with the error that ended the
        connection.
        """


class AckOwner(Protocol):
    """The part of a consumer's deliveries that its acks need."""

    @property
    def consumer_id(self) -> int:
        """Return the consumer's id on its connection."""

    def connection(self) -> AckLink | None:
        """Return the connection, or None while it is lost."""

    def redelivered_locally(self, positions: Sequence[Position]) -> None:
        """Drop waiting messages of entries that will be delivered again, and restore their permits."""

    def redeliver_everything(self) -> None:
        """Drop the waiting messages, and request all unacked messages again."""


class RedeliveryFilter(Protocol):
    """Decides which entries become dead letters or retry letters instead of being delivered again."""

    def still_due(self, positions: Sequence[Position], *, is_timeout: bool) -> Sequence[Position]:
        """Return the entries to request again now. The letters of the others are written, or are under way."""

    def settled(self, position: Position) -> None:
        """Forget an entry whose messages are all acked."""

    def settled_through(self, position: Position) -> None:
        """Forget every entry up to this one, because all are acked."""

    def forget(self) -> None:
        """Forget all entries, because the broker delivers everything unacked again."""
