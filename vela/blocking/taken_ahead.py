"""Messages taken from a consumer's queue a few at a time: waking the loop for each would cost more than the rest."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from vela.message import Message

__all__ = ["TakenAhead"]


class TakenAhead:
    """What was taken and is not handed to the application yet, first in first out. May be used from any thread.

    Those of a lost connection are passed over: they come again.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._guard = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def next(self) -> Message | None:
        """The first message, None when there is none.

        Broken off by an exception thrown into the thread (KeyboardInterrupt) it leaves the message here: Python throws
        it between a call and what follows, and after the last call inside the `try` there is only the `return`.
        """
        message: Message | None = None
        try:
            with self._guard:
                while self._messages:
                    message = self._messages[0]
                    del self._messages[0]
                    if message.entry.receiver.is_current(message):
                        break
                    message = None
            return message
        except BaseException:
            if message is not None:
                self._messages.appendleft(message)
            raise

    def add(self, messages: Iterable[Message]) -> None:
        """More, behind the others."""
        self._messages.extend(messages)

    def clear(self) -> list[Message]:
        """Empties it; what was there."""
        with self._guard:
            found = list(self._messages)
            self._messages.clear()
        return found
