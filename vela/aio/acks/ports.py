"""Whom the ack side of a consumer works with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from vela.core.acks.batch_acks import Position

__all__ = ["AckLink", "AckOwner", "RedeliveryFilter"]


class AckLink(Protocol):
    """The part of a connection that is used here."""

    def write(self, *parts: bytes) -> None:
        """Send; never waits."""

    def ask(self, build: Callable[[int], bytes], *, timeout_s: float | None) -> asyncio.Future[Any]:
        """Send at once; the answer, or what the broker refuses with, or that it did not answer."""


class AckOwner(Protocol):
    """The consumer, as far as its acks need it."""

    @property
    def consumer_id(self) -> int:
        """Its number on the connection."""

    def connection(self) -> AckLink | None:
        """Where it is attached, None while it is not."""

    def redelivered_locally(self, positions: Sequence[Position]) -> None:
        """These entries are about to be asked for again: drop their messages that nobody took, with their permits."""

    def redeliver_everything(self) -> None:
        """Ask for everything unacked: drop the queue, raise the epoch, REDELIVER, give the permits back."""


class RedeliveryFilter(Protocol):
    """Decides what is not redelivered after all: dead letters and retry letters."""

    def still_due(self, positions: Sequence[Position], *, is_timeout: bool) -> Sequence[Position]:
        """Those to ask for; it sees to the others."""

    def settled(self, position: Position) -> None:
        """The entry is wholly acked."""

    def settled_through(self, position: Position) -> None:
        """So is every entry up to this one."""

    def forget(self) -> None:
        """Everything unacked is delivered anew."""
