"""`vela.Reader`: a reader for threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vela.aio.readers.reader import Reader as AioReader
from vela.blocking.facade import Facade
from vela.core.argument_checks import milliseconds
from vela.errors import AlreadyClosed
from vela.message import Message, MessageId

if TYPE_CHECKING:
    from vela.blocking.loop_thread import LoopThread
    from vela.core.consuming.statistics import ConsumerStatistics

__all__ = ["Reader"]


class Reader(Facade[AioReader]):
    """A reader, created by `Client.create_reader`. Several threads may use it; each message goes to one of them."""

    def __init__(self, aio: AioReader, thread: LoopThread, *, client: object) -> None:
        super().__init__(aio, thread, client=client)
        self._returned: deque[Message] = deque()  # taken by interrupted calls

    def topic(self) -> str:
        """Return the topic's full name."""
        return self.aio.topic()

    def is_connected(self) -> bool:
        """Return whether the reader is connected to the broker now."""
        return not self._thread.is_forked and self.aio.is_connected()

    def read_next(self, timeout_millis: int | None = None) -> Message:
        """Return the next message. Wait for it without limit, or at most `timeout_millis`.

        Raises Timeout, AlreadyClosed, NotConnected if the reader has failed, and InvalidConfiguration if it has a
        listener. If KeyboardInterrupt interrupts the call, the next call returns the message.
        """
        self._thread.require_own_process()
        if timeout_millis is not None:
            milliseconds("timeout_millis", timeout_millis)
        if self._returned:
            try:
                return self._returned.popleft()
            except IndexError:
                pass  # another thread was faster
        return self._thread.run(lambda: self.aio.read_next(timeout_millis), self._returned.appendleft)

    def has_message_available(self) -> bool:
        """Return whether there is a message to read, as `vela.aio.Reader.has_message_available` does."""
        self._thread.require_own_process()
        return bool(self._returned) or self._thread.run(self.aio.has_message_available)

    def statistics(self) -> ConsumerStatistics:
        """Return the statistics of the consumer behind the reader. Cheap, and allowed at any time."""
        return self._thread.call(self.aio.statistics)

    def seek(self, messageid: MessageId | int) -> None:
        """Continue at a message id, or at the first message published at a time (milliseconds since 1970 UTC) or later.

        `start_message_id_inclusive` decides whether the next message is the one with the id or the one after it.
        """
        self._thread.run(lambda: self.aio.seek(messageid))
        self._returned.clear()

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the reader is closed."""
        while True:
            try:
                message = self.read_next()
            except AlreadyClosed:
                self._thread.require_own_process()
                return
            yield message

    def close(self) -> None:
        """Close the reader and delete its subscription. Safe to repeat."""
        self._thread.run_unless_stopped(self.aio.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
