"""Count the messages that may still be sent to one consumer."""

from __future__ import annotations

from broker.core.errors import InvalidFlow


class Permits:
    """The permits of one consumer. A batch may take the balance below zero."""

    __slots__ = ("aside", "balance", "granted", "spent")

    def __init__(self) -> None:
        self.balance = 0
        self.granted = 0  # Total since the consumer attached
        self.aside = 0  # Permits that wait for `grant_aside`
        self.spent = 0  # Total since the consumer attached

    def grant(self, messages: int) -> None:
        """Grant permits. Raises InvalidFlow if `messages` is below 1."""
        _check(messages)
        self.granted += messages
        self.balance += messages

    def set_aside(self, messages: int) -> None:
        """Keep permits for a later `grant_aside`. Raises InvalidFlow if `messages` is below 1."""
        _check(messages)
        self.aside += messages

    def grant_aside(self) -> None:
        """Grant the permits that were set aside, if any."""
        self.granted += self.aside
        self.balance += self.aside
        self.aside = 0

    def spend(self, messages: int) -> None:
        self.spent += messages
        self.balance -= messages


def _check(messages: int) -> None:
    if messages < 1:
        raise InvalidFlow(f"the client granted {messages} permits; grant 1 or more")
