"""The connection over which a consumer is subscribed, and the commands that the consumer sends there."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from vela.aio.consumers.subscription_commands import seek_command
from vela.errors import AlreadyClosed, NotConnected, ReadError, Timeout, VelaError
from vela.wire.binary import commands, replies

if TYPE_CHECKING:
    from collections.abc import Callable

    from vela.aio.connections.connection import Connection
    from vela.aio.connections.sinks import ConsumerSink
    from vela.aio.deadline import Deadline
    from vela.message import MessageId

__all__ = ["ConsumerLink"]

logger = logging.getLogger(__name__)


class ConsumerLink:
    """One consumer's link to its broker, over one connection after another.

    Requests use the current connection. They raise NotConnected without one, and the errors of `Connection.request`.
    """

    def __init__(self, consumer_id: int, topic: str, *, timeout_s: float) -> None:
        """`timeout_s`: for the broker's answer to a request."""
        self.connection: Connection | None = None
        """The connection on which the consumer is subscribed; None while there is none."""
        self.consumer_id = consumer_id
        """The consumer's number on its connections, unique in the client."""
        self._topic = topic
        self._timeout_s = timeout_s
        self._attached = asyncio.Event()

    # --- being subscribed

    async def subscribe(
        self, connection: Connection, sink: ConsumerSink[Connection], command: Callable[[int], bytes]
    ) -> None:
        """Register the consumer on a connection and subscribe it there. Call `confirm` or `give_up` after this."""
        connection.consumers[self.consumer_id] = sink
        await connection.request(command, timeout_s=self._timeout_s)
        if connection.consumers.get(self.consumer_id) is not sink:
            raise ReadError(f"the broker closed the consumer of {self._topic} as soon as it was subscribed")
        self.connection = connection

    def confirm(self) -> None:
        """Wake `until_attached`: the consumer is subscribed and has granted its permits."""
        self._attached.set()

    def give_up(self, connection: Connection, error: BaseException) -> None:
        """Unregister the consumer from a connection, because subscribing failed, or a step after it."""
        if not isinstance(error, VelaError) or isinstance(error, Timeout | AlreadyClosed):
            self.leave(connection)  # the broker has subscribed the consumer, or may still do so
        else:
            self.connection = None
            connection.consumers.pop(self.consumer_id, None)

    def detach(self) -> None:
        """Use no connection until the consumer is subscribed again."""
        self.connection = None
        self._attached.clear()

    async def until_attached(self, deadline: Deadline) -> None:
        """Wait until the consumer is subscribed, or has ended. Raises Timeout."""
        try:
            async with asyncio.timeout(deadline.left_s):
                await self._attached.wait()
        except TimeoutError:
            raise Timeout(f"the consumer of {self._topic} is not subscribed again yet") from None

    def wake(self) -> None:
        """Wake `until_attached`, because the consumer ends."""
        self._attached.set()

    def require(self) -> Connection:
        """Return the connection. Raises NotConnected."""
        if self.connection is None:
            raise NotConnected(f"the consumer of {self._topic} has no connection now; try again later")
        return self.connection

    # --- commands without an answer. Without a connection, nothing is sent: subscribing again replaces these commands.

    def flow(self, permits: int) -> None:
        """Grant permits."""
        if self.connection is not None:
            self.connection.write(commands.flow(self.consumer_id, permits))

    def redeliver_all(self, epoch: int | None) -> None:
        """Have all unacknowledged messages delivered again."""
        if self.connection is not None:
            self.connection.write(commands.redeliver(self.consumer_id, (), epoch=epoch))

    # --- requests

    async def seek(self, target: MessageId | int) -> None:
        """Move the subscription."""
        await self.require().request(
            lambda request_id: seek_command(self.consumer_id, target, request_id=request_id),
            timeout_s=self._timeout_s,
        )

    async def last_message(self, *, timeout_s: float) -> replies.LastMessageId:
        """Return the id of the newest message, and the mark-delete position."""
        answer = await self.require().request(
            lambda request_id: commands.get_last_message_id(self.consumer_id, request_id=request_id),
            timeout_s=timeout_s,
        )
        assert isinstance(answer, replies.LastMessageId)
        return answer

    # --- leaving

    async def unsubscribe(self, *, force: bool) -> None:
        """Delete the subscription. After that, the consumer is not on its connection any more."""
        connection = self.require()
        await connection.request(
            lambda request_id: commands.unsubscribe(self.consumer_id, request_id=request_id, force=force),
            timeout_s=self._timeout_s,
        )
        connection.consumers.pop(self.consumer_id, None)
        self.connection = None

    async def close(self, deadline: Deadline) -> None:
        """Tell the broker that the consumer closes, and wait for the answer until the deadline."""
        connection = self.connection
        if connection is None:
            return
        if not deadline.left_s:
            self.leave(connection)
            return
        self.connection = None
        try:
            await connection.request(
                lambda request_id: commands.close_consumer(self.consumer_id, request_id=request_id),
                timeout_s=deadline.left_s,
            )
        except VelaError as error:
            logger.debug("%s: could not tell the broker that a consumer closes: %s", self._topic, error)
        connection.consumers.pop(self.consumer_id, None)

    def leave(self, connection: Connection) -> None:
        """Tell the broker that the consumer closes, without waiting for the answer."""
        self.connection = None
        connection.consumers.pop(self.consumer_id, None)
        connection.write(commands.close_consumer(self.consumer_id, request_id=connection.next_request_id()))
