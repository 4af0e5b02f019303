"""The flow control of a consumer or reader socket."""

from __future__ import annotations

from typing import Self

from broker.doors.websocket.json.errors import InvalidCommand

__all__ = ["DeliveryWindow"]


class DeliveryWindow:
    """Counts how many messages may be pushed now.

    In push mode, and for readers, `settled` makes room for as many messages as the peer has answered. It does not look
    at ids, so a client that acks a message twice widens its window. In pull mode only `permit` makes room, and unused
    permits stay.

    The balance falls below 0 when a batch has more messages than there is room for. `settled` and `permit` return the
    room that they made: a socket with one source grants it to the broker as permits.
    """

    __slots__ = ("_balance", "_pull")

    def __init__(self, balance: int, *, pull: bool) -> None:
        self._balance = balance
        self._pull = pull

    @classmethod
    def push(cls, window: int) -> Self:
        """Return a push-mode window of `window` >= 1 messages (`ConsumerOptions.window`, `ReaderOptions.window`)."""
        return cls(window, pull=False)

    @classmethod
    def pull(cls) -> Self:
        """Return a pull-mode window: nothing is pushed before the first permit."""
        return cls(0, pull=True)

    @property
    def room(self) -> int:
        """Messages that may be pushed now, never negative."""
        return max(0, self._balance)

    def pushed(self, messages: int = 1) -> None:
        """Use up room for this many messages."""
        self._balance -= messages

    def settled(self, messages: int = 1) -> int:
        """Make room for this many answered messages. Return `messages`, or 0 in pull mode, which makes no room."""
        if self._pull:
            return 0
        self._balance += messages
        return messages

    def permit(self, messages: int) -> int:
        """Carry out a `permit` command. Return `messages`, or 0 in push mode, which ignores the command.

        Raises InvalidCommand in pull mode if `messages` is not positive; Pulsar would subtract such a number.
        """
        if not self._pull:
            return 0
        if messages <= 0:
            raise InvalidCommand(f"permitMessages is {messages}; grant at least 1")
        self._balance += messages
        return messages
