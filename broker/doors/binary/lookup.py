"""Topic lookup on a binary connection. One broker serves all topics, so LOOKUP never redirects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.core.errors import BrokerError, NotAllowed, ServiceNotReady, TooManyLookups
from broker.core.topic_name import TopicName
from broker.core.topic_pattern import TopicPattern
from broker.doors.server_errors import server_error
from broker.topics.lists.topic_lists import matching
from vela.wire.binary.enums import TopicsMode

if TYPE_CHECKING:
    from broker.doors.binary.request_runner import RequestRunner
    from broker.doors.binary.wire.engine import ServerEngine
    from broker.doors.binary.wire.events import GetTopicsOfNamespace, Lookup, PartitionMetadata
    from broker.doors.ports import LookupPort

__all__ = ["LookupAnswers"]


class LookupAnswers:
    """Answers the lookup commands of one connection."""

    def __init__(self, broker: LookupPort, engine: ServerEngine, requests: RequestRunner) -> None:
        self._broker = broker
        self._engine = engine
        self._requests = requests
        self._unanswered = 0
        self._listing = asyncio.Lock()  # Read only one list at a time, because a list may take megabytes

    def on_partition_metadata(self, event: PartitionMetadata) -> None:
        """Answer with the number of partitions, or 0 if the topic is not partitioned. May create the topic."""
        self._run(
            event,
            lambda: self._partition_metadata(event),
            lambda error: self._engine.send_partition_metadata_failed(
                event.request_id, server_error(error), str(error)
            ),
        )

    def _run(
        self,
        event: PartitionMetadata | GetTopicsOfNamespace,
        work: Callable[[], Coroutine[Any, Any, None]],
        refuse: Callable[[BrokerError], None],
    ) -> None:
        most = self._broker.settings.max_lookups_per_connection
        if most and self._unanswered >= most:
            setting = "VELA_MAX_LOOKUPS_PER_CONNECTION"
            self._broker.connections.reached(setting, "refused another lookup", self._requests.peer_text)
            error = TooManyLookups(
                f"{most} lookups have no answer yet, the most that {setting} allows: wait for some, then try again"
            )
            self._requests.count_refusal(event, str(error))
            refuse(error)
            return
        self._unanswered += 1
        self._requests.run(event, self._counted(work()), refuse)

    async def _counted(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self._unanswered -= 1

    async def _partition_metadata(self, event: PartitionMetadata) -> None:
        name = TopicName.parse(event.topic)
        partitions = await self._broker.partition_count(name, create=event.create)
        self._engine.send_partition_metadata(event.request_id, partitions)

    def on_lookup(self, event: Lookup) -> None:
        """Answer with this broker's URLs, even if the topic does not exist."""
        engine, broker = self._engine, self._broker
        try:
            url, url_tls = broker.service_urls(TopicName.parse(event.topic))
            ready, why = broker.is_ready()
            if not ready:
                raise ServiceNotReady(why)
            if event.listener_name:
                raise ServiceNotReady(
                    f"the broker has no listener {event.listener_name!r}: connect without a listener name"
                )
        except BrokerError as error:
            self._requests.count_refusal(event, str(error))
            engine.send_lookup_failed(event.request_id, server_error(error), str(error))
        else:
            engine.send_lookup(event.request_id, url=url, url_tls=url_tls)

    def on_topics_of_namespace(self, event: GetTopicsOfNamespace) -> None:
        """Answer with a namespace's topics. The list is empty for an unknown namespace."""
        self._run(
            event,
            lambda: self._topics_of_namespace(event),
            lambda error: self._engine.send_error(event.request_id, server_error(error), str(error)),
        )

    async def _topics_of_namespace(self, event: GetTopicsOfNamespace) -> None:
        async with self._listing:
            await self._requests.room()
            topics = await self._broker.topics_of_namespace(event.namespace)
            if event.mode is not TopicsMode.ALL:
                domain = "persistent" if event.mode is TopicsMode.PERSISTENT else "non-persistent"
                topics = [topic for topic in topics if topic.startswith(f"{domain}://")]
            pattern = _pattern(event)
            if pattern is not None:
                topics = await matching(pattern, topics)
            self._engine.send_topics_of_namespace(
                event.request_id, topics, is_filtered=pattern is not None, known_hash=event.topics_hash
            )


def _pattern(event: GetTopicsOfNamespace) -> TopicPattern | None:
    """Return the client's pattern, or None if the client sent no pattern or a pattern that is not allowed."""
    try:
        return TopicPattern(event.pattern) if event.pattern else None
    except NotAllowed:
        return None
