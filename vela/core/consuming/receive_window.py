"""How many messages a consumer wants from the broker: its queue's size and the permits it owes.

The broker sends what it was permitted. What the application takes is permitted again, half a queue at a time.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ReceiveWindow"]

_NEVER: Final = 1 << 62


class ReceiveWindow:
    """The permits of one consumer on one connection after another.

    Every method that frees permits returns how many to send in one Flow now, 0 for none. On one connection the
    permits sent, minus those the broker spent, plus what is `owed` and what the consumer holds is the size (1.5).
    """

    __slots__ = ("_is_paused", "_maximum", "_threshold", "owed", "size")

    def __init__(self, size: int, *, growable: bool = False, paused: bool = False) -> None:
        """`size` >= 1 messages. `growable`: begin with 1 and double whenever the queue runs dry (`grow`)."""
        if size < 1:
            raise ValueError("a receive window holds 1 message or more")
        self._maximum = size
        self.size = 1 if growable else size
        self.owed = self.size  # permits freed and not sent yet; below 0 after a hand-over was undone
        self._is_paused = paused
        self._set_threshold()

    @property
    def is_paused(self) -> bool:
        """No Flow is sent; what is freed is kept."""
        return self._is_paused

    @property
    def maximum(self) -> int:
        """What `size` can grow to."""
        return self._maximum

    def attached(self) -> int:
        """A new connection: the broker has no permits of ours, and nothing that came before it counts."""
        self.owed = self.size
        return 0 if self._is_paused else self._send()

    def give_back(self, permits: int) -> int:
        """So many messages are taken, or will not be taken."""
        self.owed += permits
        return self._send() if self.owed >= self._threshold else 0

    def take_back(self, permits: int) -> None:
        """So many messages were not taken after all."""
        self.owed -= permits

    def pause(self) -> None:
        """Send no Flow until `resume`. Safe to repeat."""
        self._is_paused = True
        self._set_threshold()

    def resume(self) -> int:
        """What came together meanwhile goes out. Safe to repeat."""
        self._is_paused = False
        self._set_threshold()
        return self._send() if self.owed > 0 else 0

    def grow(self) -> int:
        """Double a growable window, because the application waits for more than it allows."""
        return self._resize(min(self._maximum, self.size * 2))

    def shrink(self) -> None:
        """Halve it, because memory is short; permits that are out already are not taken back."""
        self._resize(max(1, self.size // 2))

    def _resize(self, size: int) -> int:
        difference = size - self.size
        self.size = size
        self._set_threshold()
        return self.give_back(difference) if difference else 0

    def _set_threshold(self) -> None:
        self._threshold = _NEVER if self._is_paused else max(1, self.size // 2)

    def _send(self) -> int:
        permits, self.owed = self.owed, 0
        return permits
