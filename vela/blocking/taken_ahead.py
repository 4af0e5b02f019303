"""Messages taken from a consumer's queue several at a time, because waking the event loop for each one is expensive."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from vela.message import Message

__all__ = ["TakenAhead"]


class TakenAhead:
    """Messages that were taken from the queue and not yet returned, in order. Any thread may use this object.

    `next` skips messages that the broker delivers again: those of an earlier connection and, on Exclusive and Failover,
    those from before a negative ack that requested everything again.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._guard = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def next(self) -> Message | None:
        """Remove and return the first message, or return None if there is none.

        If an exception such as KeyboardInterrupt is thrown into the thread, the message stays in this object. Python
        raises such an exception only at calls and loops, and all of them are inside the `try`.
        """
        message: Message | None = None
        try:
            with self._guard:
                while self._messages:
                    message = self._messages[0]
                    del self._messages[0]
                    if message.entry.receiver.is_awaited(message):
                        break
                    message = None
            return message
        except BaseException:
            if message is not None:
                self.put_first(message)
            raise

    def put_first(self, message: Message) -> None:
        """Add a message before all others: the call that took it was interrupted."""
        with self._guard:
            self._messages.appendleft(message)

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages at the end."""
        self._messages.extend(messages)

    def clear(self) -> list[Message]:
        """Remove and return all messages."""
        with self._guard:
            found = list(self._messages)
            self._messages.clear()
        return found
