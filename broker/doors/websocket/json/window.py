"""Flow control of a consumer or reader socket."""

from __future__ import annotations

from typing import Self

from broker.doors.websocket.json.errors import InvalidCommand

__all__ = ["DeliveryWindow"]


class DeliveryWindow:
    """How many messages may be pushed now.

    Push mode, and every reader: at most `window` messages are out; each ack or nack frame frees one place,
    whatever id it names, so a client that acks twice widens its window. Pull mode: starts at nothing;
    `permit` grants, acks do not count, unused permits stay.

    `balance` falls below 0 when a batch is sent to a socket with less room than it has messages; the debt is
    paid by the next credits. `settled` and `permit` return the credit they gave, for the dispatcher's
    permits.
    """

    __slots__ = ("_balance", "_pull")

    def __init__(self, balance: int, *, pull: bool) -> None:
        self._balance = balance
        self._pull = pull

    @classmethod
    def push(cls, window: int) -> Self:
        """A push-mode window of `window` >= 1 messages (`ConsumerOptions.window`, `ReaderOptions.window`)."""
        return cls(window, pull=False)

    @classmethod
    def pull(cls) -> Self:
        """Pull mode: nothing is pushed before the first permit."""
        return cls(0, pull=True)

    @property
    def balance(self) -> int:
        """Messages granted and not yet pushed; negative after an overshoot."""
        return self._balance

    @property
    def room(self) -> int:
        """Messages that may be pushed now, never negative."""
        return max(0, self._balance)

    @property
    def is_pull(self) -> bool:
        """True in pull mode."""
        return self._pull

    def pushed(self, messages: int = 1) -> None:
        """`messages` were written to the socket."""
        self._balance -= messages

    def unsent(self, messages: int = 1) -> None:
        """Writing failed: the places are free again, the messages come back by redelivery only."""
        self._balance += messages

    def settled(self, frames: int = 1) -> int:
        """`frames` acks or nacks (a reader: any object) arrived. Returns the credit, 0 in pull mode."""
        if self._pull:
            return 0
        self._balance += frames
        return frames

    def permit(self, messages: int) -> int:
        """A `permit` command. Returns the credit: `messages`, 0 in push mode, where it is ignored.

        Raises InvalidCommand in pull mode when `messages` is not positive, and changes nothing. Pulsar takes
        such a number as it is, which lets a client owe permits without seeing why nothing comes.
        """
        if not self._pull:
            return 0
        if messages <= 0:
            raise InvalidCommand(f"permitMessages is {messages}; grant at least 1")
        self._balance += messages
        return messages
