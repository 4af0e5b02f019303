"""The flow control of a consumer or reader socket."""

from __future__ import annotations

from typing import Self

from broker.doors.websocket.json.errors import InvalidCommand

__all__ = ["DeliveryWindow"]


class DeliveryWindow:
    """Counts how many messages may be pushed now.

    In push mode, and for every reader, at most `window` messages are pushed and not settled. Each ack, nack or
    reconsumeLater frees one place, whatever id it names, so a client that acks twice widens its window. A cumulative
    ack frees the places of all messages up to its own. Pull mode starts with no room: `permit` makes room, acks free no
    places, and unused permits stay.

    The balance falls below 0 when a batch has more messages than there is room for; the next credits make up for it.
    `settled` and `permit` return their credit in messages, which the socket grants to the broker as permits.
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
        """Use up room for `messages` that were written to the socket."""
        self._balance -= messages

    def settled(self, messages: int = 1) -> int:
        """Free this many places, for acks or nacks (for a reader: any objects). Return the credit, 0 in pull mode."""
        if self._pull:
            return 0
        self._balance += messages
        return messages

    def permit(self, messages: int) -> int:
        """Carry out a `permit` command. Return the credit: `messages`, or 0 in push mode, which ignores the command.

        Raises InvalidCommand in pull mode if `messages` is not positive, and then changes nothing. Pulsar
        subtracts such a number, and the client cannot see why no message arrives.
        """
        if not self._pull:
            return 0
        if messages <= 0:
            raise InvalidCommand(f"permitMessages is {messages}; grant at least 1")
        self._balance += messages
        return messages
