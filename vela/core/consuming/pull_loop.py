"""The pull loop of one queue: where and when to pull next, and which messages are finished.

It works like RocketMQ's client: there is a next pull after each answer, with or without messages, and after each
failure. Times are in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from vela.wire.pull.codes import PullCode
from vela.wire.pull.reading import ReadAnswer, ReadMessage

__all__ = ["FAILED_MS", "PullLimits", "PullLoop", "PullStep"]

FULL_MS: Final = 50  # pause between looks while too much is unfinished
FAILED_MS: Final = 3000  # pause after an exception, a refusal or silence, before the same pull is repeated
EMPTY_MS: Final = 20  # pause after an answer without progress that came sooner than this


@dataclass(frozen=True, slots=True, kw_only=True)
class PullLimits:
    """Limits for the pulled and unfinished messages of one queue.

    Above a limit, the loop stops pulling, so one answer may exceed it.
    """

    messages: int = 1000
    size_bytes: int = 100 * 1024 * 1024  # payloads and properties
    # Offsets from the first unfinished message to the next pull. So a message that is never finished stops the loop.
    span: int = 2000


class PullStep(NamedTuple):
    """What the consumer does after an answer."""

    messages: tuple[ReadMessage, ...]  # for the application
    pause_ms: int  # pause until the next pull
    # The offset of the pull if the queue does not have it: messages returned earlier are then obsolete. Else None.
    moved_from: int | None


class PullLoop:
    """The loop of one queue, starting at an offset.

    `epoch` counts how often the broker has moved the offset. Messages of an earlier epoch are obsolete.
    """

    __slots__ = (
        "_limits",
        "_pull_interval_ms",
        "_size_bytes",
        "_unfinished",
        "epoch",
        "max_offset",
        "next_offset",
    )

    def __init__(self, next_offset: int, *, limits: PullLimits, pull_interval_ms: int = 0) -> None:
        self.next_offset = next_offset
        self.max_offset = next_offset  # the queue's end, as the broker last reported it
        self.epoch = 0
        self._limits = limits
        self._pull_interval_ms = pull_interval_ms
        self._unfinished: dict[int, int] = {}  # offset → bytes, in order
        self._size_bytes = 0

    def __len__(self) -> int:
        """Return the number of messages that are pulled and not finished."""
        return len(self._unfinished)

    @property
    def commit_offset(self) -> int:
        """The smallest offset that is not finished. Messages that a filter left out count as finished."""
        return next(iter(self._unfinished), self.next_offset)

    def wait_ms(self) -> int:
        """Return 0 if the next pull may go out, else how long to wait before the next look."""
        limits = self._limits
        is_full = (
            len(self._unfinished) > limits.messages
            or self._size_bytes > limits.size_bytes
            or self.next_offset - self.commit_offset > limits.span
        )
        return FULL_MS if is_full else 0

    def answered(self, answer: ReadAnswer, *, waited_ms: float) -> PullStep:
        """Take the answer to a pull from `next_offset`. It came `waited_ms` after the pull was sent."""
        before, self.next_offset = self.next_offset, answer.next_begin_offset
        self.max_offset = answer.max_offset
        if answer.code is PullCode.PULL_OFFSET_MOVED:
            self.epoch += 1
            self._unfinished.clear()
            self._size_bytes = 0
            return PullStep((), EMPTY_MS if self.next_offset == before else 0, before)
        for message in answer.messages:
            size_bytes = _size(message)
            self._unfinished[message.offset] = size_bytes
            self._size_bytes += size_bytes
        if answer.messages:
            return PullStep(answer.messages, self._pull_interval_ms, None)
        is_empty = self.next_offset == before and waited_ms < EMPTY_MS
        return PullStep((), EMPTY_MS if is_empty else 0, None)

    def holds(self, offset: int, epoch: int) -> bool:
        """Return whether a message is pulled and not finished."""
        return epoch == self.epoch and offset in self._unfinished

    def finish(self, offset: int, epoch: int) -> bool:
        """Finish a message for the application.

        Return False if it was finished before, or the offset was moved since.
        """
        size_bytes = self._unfinished.pop(offset, None) if epoch == self.epoch else None
        if size_bytes is None:
            return False
        self._size_bytes -= size_bytes
        return True


def _size(message: ReadMessage) -> int:
    size = len(message.payload)
    for name, value in message.properties.items():
        size += len(name) + len(value)
    return size
