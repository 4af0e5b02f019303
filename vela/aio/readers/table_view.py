"""A table with the newest value of each key in a topic, kept up to date as messages arrive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Self

from vela.aio.own_loop import require_loop
from vela.aio.readers.reader import Reader
from vela.core.argument_checks import require_callable
from vela.core.backoff import Backoff
from vela.errors import AlreadyClosed, NotConnected, VelaError
from vela.message import Message

__all__ = ["TableView"]

logger = logging.getLogger(__name__)

Listener = Callable[[str, Any], None]


class TableView:
    """A table view, created by `Client.create_table_view`. It begins with every key that the topic has at that time.

    It skips messages without a key. A message without content removes its key. A message that cannot be decoded is
    logged and changes nothing. Reading the table never waits. The table comes from the compacted topic, as in
    Pulsar's clients.
    """

    def __init__(
        self, reader: Reader, backoff: Backoff, *, open_reader: Callable[[], Awaitable[Reader]]
    ) -> None:
        """`backoff` gives the pauses after failed reads. `open_reader` replaces a reader that has failed."""
        self._reader = reader
        self._open_reader = open_reader
        self._has_failed = False  # True: the reader failed, for example because its topic was deleted
        self._backoff = backoff
        self._values: dict[str, Any] = {}
        self._listeners: list[Listener] = []
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the existing messages, then continue in the background. For `Client.create_table_view`."""
        while await self._reader.has_message_available():
            self._apply(await self._reader.read_next())
        self._following = asyncio.get_running_loop().create_task(self._follow())

    def topic(self) -> str:
        """Return the topic's full name."""
        return self._reader.topic()

    def get(self, key: str) -> Any | None:
        """Return the newest value of a key, decoded by the schema; None if the key has no value."""
        return self._values.get(key)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        """Return the current keys. The table may change while you iterate."""
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def for_each(self, callback: Listener) -> None:
        """Call `callback(key, value)` for each current key."""
        require_callable("callback", callback)
        for key, value in tuple(self._values.items()):
            callback(key, value)

    def for_each_and_listen(self, callback: Listener) -> None:
        """Do the same as `for_each`, then call `callback` for every later change. The value None means "removed".

        The callback runs on the event loop. Errors of the later calls are logged and have no other effect.
        """
        self.for_each(callback)
        self._listeners.append(callback)

    async def close(self) -> None:
        """Stop following the topic. You can still read the table. Safe to repeat."""
        if self._following is not None:
            require_loop(self._following.get_loop())
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
            self._following = None
        await self._reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _follow(self) -> None:
        logged = ""
        while True:
            try:
                message = await self._next()
            except AlreadyClosed:
                return
            except VelaError as error:
                if str(error) != logged:
                    logged = str(error)
                    logger.error(
                        "the table view of %s cannot read its topic, will try again: %s",
                        self._reader.topic(),
                        error,
                    )
                await asyncio.sleep(self._backoff.next_ms(random.random()) / 1000)  # noqa: S311 - no secret
            else:
                logged = ""
                self._backoff.reset()
                self._apply(message)

    async def _next(self) -> Message:
        if self._has_failed:
            await self._begin_again()
        try:
            return await self._reader.read_next()
        except NotConnected:
            self._has_failed = True
            raise

    async def _begin_again(self) -> None:
        """Open another reader, and replace the table with what the topic has now."""
        await self._reader.close()
        self._reader = await self._open_reader()
        values: dict[str, Any] = {}
        while await self._reader.has_message_available():
            self._change(values, await self._reader.read_next())
        self._has_failed = False
        old, self._values = self._values, values
        for key in old:
            if key not in values:
                self._tell(key, None)
        for key, value in values.items():
            if key not in old or old[key] != value:
                self._tell(key, value)

    def _apply(self, message: Message) -> None:
        if self._change(self._values, message):
            key = message.partition_key()
            self._tell(key, self._values.get(key))

    def _change(self, values: dict[str, Any], message: Message) -> bool:
        """Put a message into a table. Return False if the message is skipped."""
        key = message.partition_key()
        if not key:
            return False
        if message.has_null_value() or not message.data():
            values.pop(key, None)
            return True
        try:
            values[key] = message.value()
        except Exception:
            logger.exception("%s cannot be decoded; the table view keeps the old value", message)
            return False
        return True

    def _tell(self, key: str, value: Any) -> None:
        for listener in self._listeners:
            try:
                listener(key, value)
            except Exception:
                logger.exception("a listener of the table view of %s failed", self._reader.topic())
