"""How many messages a consumer wants from the broker: the size of its queue, and the permits that it owes.

The broker sends as many messages as it has permits. When the application takes messages, the consumer grants as many
permits again, half a queue at a time.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ReceiveWindow"]

_NEVER: Final = 1 << 62


class ReceiveWindow:
    """The permits of one consumer, on each of its connections in turn.

    Every method that frees permits returns how many to send in one Flow now, 0 for none. On one connection `at_broker`,
    `owed` and the messages in the queue add up to `size`.
    """

    __slots__ = ("_is_paused", "_maximum", "_threshold", "_was_full", "at_broker", "owed", "size")

    def __init__(self, size: int, *, growable: bool = False, paused: bool = False) -> None:
        """`size` >= 1 messages. `growable`: begin with 1 and double whenever a full queue runs dry."""
        if size < 1:
            raise ValueError("a receive window holds 1 message or more")
        self._maximum = size
        self._was_full = False  # all permitted messages have arrived, so the window may be too small
        self.at_broker = 0  # permits sent and not spent; below 0 after messages without a permit
        self.size = 1 if growable else size
        # permits freed and not sent yet; below 0 after messages went back into the queue
        self.owed = self.size
        self._is_paused = paused
        self._set_threshold()

    @property
    def is_paused(self) -> bool:
        """Whether no Flow is sent. Freed permits are kept meanwhile."""
        return self._is_paused

    def available(self, waiting: int) -> int:
        """Return how many more messages the queue has room for."""
        return self.size - waiting

    def attached(self) -> int:
        """Begin on a new connection, where the broker has no permits."""
        self.at_broker, self.owed, self._was_full = 0, self.size, False
        return 0 if self._is_paused else self._send()

    def spent(self, permits: int) -> None:
        """Count the permits that a delivery cost."""
        self.at_broker -= permits
        if self.at_broker <= 0:
            self._was_full = True

    def give_back(self, permits: int) -> int:
        """Free the permits of messages that are taken, or will not be taken."""
        self.owed += permits
        return self._send() if self.owed >= self._threshold else 0

    def take_back(self, permits: int) -> None:
        """Undo `give_back` for messages that were not taken after all."""
        self.owed -= permits

    def pause(self) -> None:
        """Send no Flow until `resume`. Safe to repeat."""
        self._is_paused = True
        self._set_threshold()

    def resume(self) -> int:
        """Send the permits that were freed meanwhile. Safe to repeat."""
        self._is_paused = False
        self._set_threshold()
        return self._send() if self.owed > 0 else 0

    def emptied(self) -> None:
        """Note that the waiting messages were dropped: an empty queue no longer shows that the window is too small."""
        self._was_full = False

    def ran_dry(self) -> int:
        """Double a growable window that was full, because the application waits for more than it allows."""
        if not self._was_full or self.size == self._maximum:
            return 0
        self._was_full = False
        size = min(self._maximum, self.size * 2)
        difference, self.size = size - self.size, size
        self._set_threshold()
        return self.give_back(difference)

    def _set_threshold(self) -> None:
        self._threshold = _NEVER if self._is_paused else max(1, self.size // 2)

    def _send(self) -> int:
        permits, self.owed = self.owed, 0
        self.at_broker += permits
        return permits
