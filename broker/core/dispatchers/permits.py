"""Credit of one consumer: how many messages may still be sent to it."""

from __future__ import annotations

from broker.core.errors import InvalidFlow


class Permits:
    """Granted - spent = balance, at any time. The balance may go below zero by one batch (semantics 3.5)."""

    __slots__ = ("balance", "granted", "held", "spent")

    def __init__(self) -> None:
        self.balance = 0  # messages
        self.granted = 0  # messages since the consumer came, held ones not included
        self.held = 0  # messages granted while blocked on unacked, applied when that ends (semantics 3.6)
        self.spent = 0  # messages charged since the consumer came

    def grant(self, messages: int) -> None:
        """Raises InvalidFlow for less than 1."""
        _check(messages)
        self.granted += messages
        self.balance += messages

    def hold(self, messages: int) -> None:
        """Keep a grant aside. Raises InvalidFlow for less than 1."""
        _check(messages)
        self.held += messages

    def apply_held(self) -> None:
        """Grant what was kept aside; nothing when there is none."""
        self.granted += self.held
        self.balance += self.held
        self.held = 0

    def spend(self, messages: int) -> None:
        self.spent += messages
        self.balance -= messages


def _check(messages: int) -> None:
    if messages < 1:
        raise InvalidFlow(f"flow of {messages} permits: must be 1 or more")
