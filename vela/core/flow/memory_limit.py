"""How many bytes of messages a client may keep, over all its consumers."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MemoryLimit", "MemoryShare"]


class MemoryLimit:
    """Counts bytes. At the limit, consumers that hold messages grant no more permits.

    The limit stops new permits only. Messages for which a consumer granted permits earlier still arrive, so the count
    may exceed the limit by their size.
    """

    __slots__ = ("_limit_bytes", "_waiting", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes` 0 means no limit. Raises ValueError for a negative one."""
        if limit_bytes < 0:
            raise ValueError(f"memory_limit_bytes must be 0 (no limit) or more, not {limit_bytes}")
        self._limit_bytes = limit_bytes
        self._waiting: list[Callable[[], None]] = []
        self.used_bytes = 0

    @property
    def limit_bytes(self) -> int:
        """The limit; 0 means none."""
        return self._limit_bytes

    @property
    def is_reached(self) -> bool:
        """Whether there is a limit and the count has reached it."""
        return 0 < self._limit_bytes <= self.used_bytes

    def add(self, size_bytes: int) -> None:
        """Count bytes that arrived."""
        self.used_bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """Count bytes that are gone. Calls the waiting functions once the count is below the limit."""
        self.used_bytes -= size_bytes
        if self._waiting and not self.is_reached:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    def when_below(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when a removal leaves the count below the limit.

        Use this only while the limit is reached.
        """
        self._waiting.append(resume)


class MemoryShare:
    """One consumer's share of the limit, and the permits that the consumer withholds while the limit is reached.

    At the limit, a consumer without messages still asks for one entry at a time. Otherwise a consumer whose application
    does not receive would stop all others.
    """

    __slots__ = ("_is_paused", "_is_waiting", "_limit", "_permits", "_send", "_withheld", "held_bytes")

    def __init__(self, limit: MemoryLimit, send: Callable[[int], None]) -> None:
        """`send` is a function that grants permits to the broker."""
        self._limit = limit
        self._send = send
        self._permits = 0  # permits at the broker; below 0 after a batch, which costs one for each message
        self._withheld = 0
        self._is_paused = False
        self._is_waiting = False
        self.held_bytes = 0

    @property
    def withheld(self) -> int:
        """Return the permits that wait until the limit allows them."""
        return self._withheld

    def grant(self, permits: int) -> None:
        """Grant permits, now or as soon as there is room."""
        self._withheld += permits
        if not self._limit.is_reached:
            self._release()
            return
        self._ask_for_one()
        if not self._is_waiting:
            self._is_waiting = True
            self._limit.when_below(self._below)

    def pause(self) -> None:
        """Withhold permits until `resume`, whatever the limit allows. Safe to repeat."""
        self._is_paused = True

    def resume(self, permits: int) -> None:
        """Grant the withheld permits and these, now or as soon as there is room."""
        self._is_paused = False
        self.grant(permits)

    def add(self, size_bytes: int, permits: int) -> None:
        """Count bytes that arrived, and the permits that they cost."""
        self._permits -= permits
        self.held_bytes += size_bytes
        self._limit.add(size_bytes)
        self._ask_for_one()

    def put_back(self, size_bytes: int) -> None:
        """Count bytes of a message that was taken and goes back into the queue."""
        self.held_bytes += size_bytes
        self._limit.add(size_bytes)

    def remove(self, size_bytes: int) -> None:
        """Count bytes that were taken or dropped."""
        size_bytes = min(size_bytes, self.held_bytes)
        self.held_bytes -= size_bytes
        self._limit.remove(size_bytes)
        self._ask_for_one()

    def reset(self) -> None:
        """Drop everything: the broker has forgotten the consumer's permits."""
        self._withheld, self._permits = 0, 0
        self.remove(self.held_bytes)

    def _ask_for_one(self) -> None:
        """If permits are withheld at the limit and no message is held here, let the broker send one entry."""
        missing = 1 - self._permits
        if self._withheld and not self._is_paused and not self.held_bytes and missing > 0:
            permits = min(missing, self._withheld)
            self._withheld -= permits
            self._give(permits)

    def _below(self) -> None:
        self._is_waiting = False
        self._release()

    def _release(self) -> None:
        if self._withheld > 0 and not self._is_paused:
            permits, self._withheld = self._withheld, 0
            self._give(permits)

    def _give(self, permits: int) -> None:
        self._permits += permits
        self._send(permits)
