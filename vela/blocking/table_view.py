"""`vela.TableView`: a table view for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from vela.aio.readers.table_view import TableView as AioTableView
from vela.blocking.facade import Facade
from vela.core.argument_checks import require_callable

if TYPE_CHECKING:
    from vela.aio.daemon_thread import DaemonThread
    from vela.blocking.loop_thread import LoopThread

__all__ = ["TableView"]


class TableView(Facade[AioTableView]):
    """A table with the newest value of each key of a topic, created by `Client.create_table_view`.

    Any number of threads may use it.
    """

    def __init__(
        self, aio: AioTableView, thread: LoopThread, callbacks: DaemonThread, *, client: object
    ) -> None:
        super().__init__(aio, thread, client=client)
        self._callbacks = callbacks

    def topic(self) -> str:
        """Return the topic's full name."""
        return self.aio.topic()

    def get(self, key: str) -> Any | None:
        """Return the newest value of a key, decoded by the schema; None if the key has no value."""
        return self.aio.get(key)

    def for_each(self, callback: Callable[[str, Any], None]) -> None:
        """Call `callback(key, value)` for each current key, on this thread."""
        require_callable("callback", callback)
        for key, value in self._thread.call(self._items):
            callback(key, value)

    def for_each_and_listen(self, callback: Callable[[str, Any], None]) -> None:
        """Do the same as `for_each`, then call `callback` for every later change. The value None means "removed".

        All calls are made on the client's thread for callbacks, one at a time.
        """
        require_callable("callback", callback)
        submit = self._callbacks.submit
        self._thread.call(
            lambda: self.aio.for_each_and_listen(lambda key, value: submit(lambda: callback(key, value)))
        )

    def _items(self) -> list[tuple[str, Any]]:
        return [(key, self.aio.get(key)) for key in self.aio]

    def __getitem__(self, key: str) -> Any:
        return self.aio[key]

    def __contains__(self, key: str) -> bool:
        return key in self.aio

    def __iter__(self) -> Iterator[str]:
        """Return the current keys. The table may change while you iterate."""
        return iter([key for key, _ in self._thread.call(self._items)])

    def __len__(self) -> int:
        return len(self.aio)

    def close(self) -> None:
        """Stop following the topic. You can still read the table. Safe to repeat."""
        self._thread.run_unless_stopped(self.aio.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
