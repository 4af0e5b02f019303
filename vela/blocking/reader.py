"""`vela.Reader`: a reader for threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vela.aio.readers.reader import Reader as AioReader
from vela.blocking.facade import Facade, waits
from vela.core.argument_checks import milliseconds
from vela.errors import AlreadyClosed
from vela.message import Message, MessageId

if TYPE_CHECKING:
    from vela.blocking.loop_thread import LoopThread

__all__ = ["Reader"]


class Reader(Facade[AioReader]):
    """Made by `Client.create_reader`. May be used from any number of threads; each message goes to one of them."""

    def __init__(self, aio: AioReader, thread: LoopThread, *, client: object) -> None:
        super().__init__(aio, thread, client=client)
        self._returned: deque[Message] = deque()  # taken by calls that were broken off

    def topic(self) -> str:
        """The topic's full name."""
        return self.aio.topic()

    def is_connected(self) -> bool:
        """Whether it is attached to the broker now."""
        return not self._thread.is_forked and self.aio.is_connected()

    def read_next(self, timeout_millis: int | None = None) -> Message:
        """The next message, waiting for one as long as it takes or for `timeout_millis`.

        Raises Timeout, AlreadyClosed, InvalidConfiguration (it has a listener). Broken off, it loses no message.
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

    has_message_available = waits(AioReader.has_message_available)

    def seek(self, messageid: MessageId | int) -> None:
        """Go on with this message id, or with what was published at this time (milliseconds since 1970 UTC) or later.

        Of an id, whether the message itself comes is `start_message_id_inclusive`'s to say, as at the start.
        """
        self._thread.run(lambda: self.aio.seek(messageid))
        self._returned.clear()

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until the reader is closed."""
        while True:
            try:
                message = self.read_next()
            except AlreadyClosed:
                self._thread.require_own_process()
                return
            yield message

    def close(self) -> None:
        """Its subscription ends. May be called twice."""
        self._thread.run_unless_stopped(self.aio.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
