"""Keep a consumer or producer attached to the broker that serves its topic."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from vela.aio.connections.connection import Connection
from vela.aio.connections.lookup import retried
from vela.core.backoff import Backoff
from vela.errors import (
    AlreadyClosed,
    IncompatibleSchema,
    InvalidConfiguration,
    InvalidMessage,
    OperationNotSupported,
    ProducerFenced,
    ReadError,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminated,
    UnknownError,
    UnsupportedVersionError,
    VelaError,
)

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts

__all__ = ["Attachment"]

logger = logging.getLogger(__name__)

_FATAL_LATER: Final = (
    AlreadyClosed,
    IncompatibleSchema,
    InvalidConfiguration,
    InvalidMessage,
    OperationNotSupported,
    ProducerFenced,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminated,
    UnsupportedVersionError,
)
"""Errors that end an attachment after its first success. It tries again after any other VelaError, such as:

- ConsumerBusy and ProducerBusy, since the broker may not have noticed yet that this client's last connection is lost;
- a refusal of the credentials, since the next attempt may have a renewed token.
"""


class Attachment:
    """Keeps one consumer or producer attached to its broker.

    `attach` registers the consumer or producer on a connection: it adds a sink, sends SUBSCRIBE or PRODUCER and awaits
    the answer. It runs again after each lost connection and may be cancelled. Until `attach` first succeeds, `open`
    raises errors. After that, `on_failed` gets the error that ends the attachment.
    """

    def __init__(
        self,
        client: ClientPorts,
        topic: str,
        attach: Callable[[Connection], Awaitable[None]],
        *,
        on_failed: Callable[[VelaError], None],
    ) -> None:
        self.connection: Connection | None = None
        """The current connection; None while reconnecting."""
        self._client = client
        self._topic = topic
        self._attach = attach
        self._on_failed = on_failed
        self._attaching: Connection | None = None
        self._lost_meanwhile: VelaError | None = None  # set if the connection is lost during `attach`
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.Timeout | None = None  # the time limit of `open`
        self._is_closed = False

    @property
    def topic(self) -> str:
        """Return the topic's full name."""
        return self._topic

    async def open(self) -> None:
        """Look up the broker, connect and attach. Tries again with back-off until the operation timeout.

        Raises an error at once if another attempt cannot help, else Timeout. After an error nothing stays attached, if
        `attach` cleans up after itself. If the call is cancelled, `attach` may have just succeeded. Call it once.
        """
        settings = self._client.settings
        self._deadline = asyncio.timeout(settings.operation_timeout_s)
        task = asyncio.get_running_loop().create_task(
            retried(self._attach_once, settings, self._client.pool.under_way, self._deadline)
        )
        self._task = task
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            if self._task is task:  # else the connection is already lost, and `_task` is reconnecting
                self._task = None
            self._deadline = None
        if task.cancelled():
            raise AlreadyClosed(f"closed while being attached to {self._topic}")
        task.result()

    def wait_without_limit(self) -> None:
        """Disable the timeout of `open`. `attach` does this if the broker lets a producer wait for exclusive access."""
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(None)

    def lost(self, connection: Connection, error: VelaError | None = None) -> None:
        """Attach again after `connection` was lost, or after the broker closed the consumer or producer there.

        Safe to repeat, and to call for an earlier connection, which changes nothing.
        """
        if connection is self._attaching:
            self._lost_meanwhile = error or ReadError(f"the broker closed {self._topic} on {connection.name}")
        elif connection is self.connection:
            self.connection = None
            if not self._is_closed:
                self._task = asyncio.get_running_loop().create_task(self._reattach())
                # Release the connection only after reattaching: a seek may still wait for its answer over it.
                self._task.add_done_callback(lambda _: self._client.release(connection))

    async def _reattach(self) -> None:
        settings = self._client.settings
        backoff = Backoff(initial_ms=settings.initial_backoff_ms, max_ms=settings.max_backoff_ms)
        while True:
            await asyncio.sleep(backoff.next_ms(random.random()) / 1000)  # noqa: S311 - no secret
            try:
                await self._attach_once()
            except _FATAL_LATER as error:
                self._fail(error)
            except VelaError as error:
                logger.info("%s: not attached yet: %s", self._topic, error)
                continue
            except Exception as error:
                logger.exception("%s: attaching failed", self._topic)
                self._fail(UnknownError(f"attaching to {self._topic} failed: {error!r}"))
            return

    def _fail(self, error: VelaError) -> None:
        self._is_closed = True
        self._on_failed(error)

    async def _attach_once(self) -> None:
        connection = await self._client.connection_for(self._topic)
        self._attaching, self._lost_meanwhile = connection, None
        try:
            await self._attach(connection)
        except BaseException:
            self._client.release(connection)
            raise
        finally:
            self._attaching = None
        if self._lost_meanwhile is not None:
            raise self._lost_meanwhile
        if connection.is_lost:
            raise ReadError(f"the connection to {connection.name} was lost while {self._topic} was attached")
        self.connection = connection

    async def close(self) -> None:
        """Stop reconnecting and release the connection. Close the consumer or producer first. Safe to repeat."""
        self._is_closed = True
        task, connection = self._task, self.connection
        self.connection = None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait((task,))
        if connection is not None:
            self._client.release(connection)
