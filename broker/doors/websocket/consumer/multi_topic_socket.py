"""Consumers of several topics in the WebSocket API, `/ws/v3/consumer/…`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.access.permissions import Action
from broker.core.errors import BrokerError, NotAuthorized
from broker.core.subscription.departure import DepartureCause
from broker.core.topic_name import TopicName
from broker.doors.handshake_errors import InvalidQuery
from broker.doors.websocket.consumer.consumer_socket import ConsumerSocket
from broker.doors.websocket.json.paths import RequestedPattern, requested_topics, subscription_name

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.doors.ports import BrokerPort, TopicListPort
    from broker.doors.websocket.consumer.fragment_cache import FragmentCache

__all__ = ["MultiTopicConsumerSocket"]

logger = logging.getLogger(__name__)


class MultiTopicConsumerSocket(ConsumerSocket):
    """One consumer of several topics. With a pattern, the consumer also joins matching topics that are created later.

    If the client lacks permission for a matching topic, the consumer skips the topic. When a topic is deleted or
    unloaded, the socket closes with code 1012, and the client must connect again.
    """

    def __init__(self, *, broker: BrokerPort, clock: Clock, fragments: FragmentCache) -> None:
        super().__init__(broker=broker, clock=clock, fragments=fragments)
        self._requested: RequestedPattern | None = None
        self._list: TopicListPort | None = None
        self._joining = asyncio.Lock()  # Only one `attach` runs at a time
        self._has_started = False
        self._joins: set[asyncio.Task[None]] = set()

    def read_address(self) -> Sequence[str]:
        """Set `subscription`, and return the named topics. For a pattern, return no topics. Raises InvalidQuery."""
        self.subscription = subscription_name(self.path_arguments["subscription"])
        found = requested_topics(self.query)
        if not isinstance(found, RequestedPattern):
            return found
        self._requested, self.is_growing = found, True
        return ()

    async def attach(self, asked: Sequence[str]) -> None:
        """Subscribe to the named topics, or to the topics that match the pattern now.

        Raises BrokerError and InvalidQuery.
        """
        if self._requested is None:
            await super().attach(asked)
            return
        if self.options.retry is not None:
            raise InvalidQuery(
                "retryEnable needs topics, not topicsPattern: the first topic named gives the retry topic its name"
            )
        async with self._joining:
            self._list = await self.broker.watch_topics(
                self._requested.namespace, self._requested.pattern, self._list_changed
            )
            await super().attach(self._permitted(self._list.names))

    def _permitted(self, names: frozenset[str]) -> list[str]:
        consumed = {each.consumer.topic_name.full for each in self.sources if each.consumer is not None}
        permitted = []
        for name in sorted(names - consumed):
            topic = TopicName.parse(name)
            try:
                self.guard.check_topic(Action.CONSUME, topic, self.subscription)
            except NotAuthorized as error:
                logger.info("%s: a topic that the pattern matches is left out: %s", self.address, error)
            else:
                permitted.append(name)
        return permitted

    def _list_changed(self, added: frozenset[str], removed: frozenset[str]) -> None:
        if added and not self.is_letting_go:
            join = asyncio.create_task(self._join(added), name=f"new topics of {self.address}")
            self._joins.add(join)
            join.add_done_callback(self._joins.discard)

    async def _join(self, added: frozenset[str]) -> None:
        async with self._joining:
            before = len(self.sources)
            try:
                if not self.is_letting_go:
                    await super().attach(self._permitted(added))
            except BrokerError as error:
                self.source_closed(f"a new topic cannot be consumed: {error}")
            except Exception:
                logger.exception("%s: consuming a new topic failed", self.address)
                self.source_closed("a new topic cannot be consumed; see the broker's log")
            # `release` may have run during `attach`.
            if self.is_letting_go:
                for source in self.sources[before:]:
                    source.detach(DepartureCause.LOST)
            elif self._has_started:
                self.credit_share(self.sources[before:], self.prefetched)

    def start(self, permits: int) -> None:
        super().start(permits)
        self._has_started = True

    def release(self) -> None:
        """Detach from every topic and stop watching for new topics."""
        super().release()
        if self._list is not None:
            self._list.detach()
