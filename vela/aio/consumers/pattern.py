"""A consumer of all topics of a namespace whose names match a pattern, including new ones."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vela.aio.consumers.multi_topics import MultiTopicsConsumer
from vela.core.topic_name import base_name
from vela.errors import TopicNotFound, VelaError
from vela.options import RegexSubscriptionMode
from vela.wire.binary.enums import TopicsMode

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions
    from vela.aio.consumers.topic_consumer import TopicConsumer
    from vela.core.topic_pattern import TopicPattern

__all__ = ["PatternConsumer"]

logger = logging.getLogger(__name__)

_MODES = {
    RegexSubscriptionMode.PersistentOnly: TopicsMode.PERSISTENT,
    RegexSubscriptionMode.NonPersistentOnly: TopicsMode.NON_PERSISTENT,
    RegexSubscriptionMode.AllTopics: TopicsMode.ALL,
}


class PatternConsumer(MultiTopicsConsumer):
    """A consumer that lists the namespace's topics every `pattern_auto_discovery_period` seconds.

    It consumes a new topic from its first message, and leaves a deleted one, as Pulsar's clients do. It leaves out the
    topics of its own dead letters: otherwise their messages would fail again and become letters of one more topic.
    """

    def __init__(self, client: ClientPorts, pattern: TopicPattern, options: ConsumerOptions) -> None:
        """Raises the errors of `MultiTopicsConsumer`."""
        # Without create_topic=False, subscribing again after a deletion would create the topic again.
        super().__init__(client, (), dataclasses.replace(options, create_topic=False))
        self._pattern = pattern
        self._known_hash: str | None = None
        self._deleted: set[str] = set()  # topics that are gone, or were gone for a while
        self._discovery: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._topics.partitions = dict.fromkeys(self._matching(await self._listed() or ()), 0)
        await super().open()
        self._discovery = self._loop.create_task(self._discover())

    async def look(self) -> None:
        """Subscribe to new topics and leave deleted ones, now. Raises the errors of listing the topics.

        A topic that cannot be subscribed is logged, and tried again at the next look.
        """
        topics = await self._listed()
        if topics is None:
            return
        while self._deleted:
            await self.remove(self._deleted.pop())  # if it is listed, it was created again
        changes = self._pattern.changes(self._topics.partitions, self._matching(topics))
        for topic in changes.removed:
            await self.remove(topic)
        for topic in changes.added:
            try:
                await self.add(topic, is_new=True)
            except VelaError as error:
                self._known_hash = None  # so that the next look lists the topics again
                logger.warning("%s: cannot subscribe to %s: %s", self, topic, error)

    def failed(self, consumer: TopicConsumer, error: VelaError) -> None:
        """Called if a topic's consumer cannot reconnect.

        A deleted topic does not end this consumer, even if it was the only one.
        """
        if isinstance(error, TopicNotFound):
            self._deleted.add(base_name(consumer.topic()))
            self._known_hash = None  # so that the next look lists the topics again
        else:
            super().failed(consumer, error)

    def _matching(self, topics: Iterable[str]) -> frozenset[str]:
        found, letters = self._pattern.matching(topics), self._options.letters
        return found if letters is None else letters.without_dead_letters(found)

    async def _listed(self) -> list[str] | None:
        """Return the namespace's topics, or None if they have not changed since the last look.

        The pattern is not sent, because brokers use another dialect of regular expressions.
        """
        answer = await self._client.get_topics_of_namespace(
            self._pattern.namespace,
            mode=_MODES[self._options.regex_subscription_mode],
            known_hash=self._known_hash,
        )
        if not answer.changed:
            return None
        self._known_hash = answer.topics_hash
        return list(answer.topics)

    def _own(self, name: str, options: ConsumerOptions) -> ConsumerOptions:
        # After the broker restarts, a non-persistent topic exists again only when a client uses it. A consumer that
        # creates the topic itself misses no message.
        return dataclasses.replace(options, create_topic=name.startswith("non-persistent:"))

    async def _discover(self) -> None:
        while True:
            await asyncio.sleep(self._options.pattern_auto_discovery_period)
            try:
                await self.look()
            except VelaError as error:
                if self._state.is_over:
                    return
                logger.warning("%s: cannot read the namespace's topics: %s", self, error)

    def _end(self, error: VelaError) -> None:
        if self._discovery is not None:
            self._discovery.cancel()
        super()._end(error)
