"""Flow control of a consumer or reader socket."""

from __future__ import annotations

from typing import Self

from broker.doors.websocket.json.errors import InvalidCommand

__all__ = ["DeliveryWindow"]


class DeliveryWindow:
    """Counts how many messages may be pushed now.

    An answer to a message is an ack, a negative ack or a reconsumeLater. In push mode, every answer makes room, even a
    second answer to the same message. In pull mode, only the client's permits make room.
    """

    __slots__ = ("_balance", "_pull")

    def __init__(self, balance: int, *, pull: bool) -> None:
        self._balance = balance
        self._pull = pull

    @classmethod
    def push(cls, window: int) -> Self:
        """Return a push-mode window with room for `window` messages."""
        return cls(window, pull=False)

    @classmethod
    def pull(cls) -> Self:
        """Return a pull-mode window without room."""
        return cls(0, pull=True)

    @property
    def room(self) -> int:
        """The number of messages that may be pushed now, never negative."""
        return max(0, self._balance)

    def pushed(self, messages: int = 1) -> None:
        """Reduce the room by the number of pushed messages."""
        self._balance -= messages

    def settled(self, messages: int = 1) -> int:
        """Increase the room by the number of answered messages. Return the increase, which is 0 in pull mode."""
        if self._pull:
            return 0
        self._balance += messages
        return messages

    def permit(self, messages: int) -> int:
        """Increase the room by the number of permitted messages. Return the increase, which is 0 in push mode.

        In pull mode, raises InvalidCommand if the number is below 1.
        """
        if not self._pull:
            return 0
        if messages <= 0:
            raise InvalidCommand(f"permitMessages is {messages}; grant at least 1")
        self._balance += messages
        return messages
