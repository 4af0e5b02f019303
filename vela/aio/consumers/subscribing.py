"""Choose the kind of consumer for a topic, a list of topics or a pattern."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vela.aio.consumers.consumer import Consumer
from vela.aio.consumers.multi_topics import MultiTopicsConsumer
from vela.aio.consumers.pattern import PatternConsumer
from vela.aio.consumers.topic_consumer import TopicConsumer
from vela.aio.consumers.warnings import option_warnings
from vela.aio.consumers.zero_queue import ZeroQueueConsumer
from vela.aio.letters.letter_box import LetterBox, open_letter_box
from vela.core.topic_name import full_name, partition_name
from vela.core.topic_pattern import TopicPattern
from vela.errors import InvalidConfiguration

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts
    from vela.aio.consumers.options import ConsumerOptions

__all__ = ["subscribe"]

logger = logging.getLogger(__name__)


async def subscribe(
    client: ClientPorts, topic: str | Sequence[str] | re.Pattern[str], options: ConsumerOptions
) -> Consumer:
    """Create a consumer and subscribe it. Raises the errors of `Client.subscribe`."""
    for warning in option_warnings(options):
        logger.warning("%s, subscription %s: %s", topic, options.subscription_name, warning)
    made: MultiTopicsConsumer | TopicConsumer
    if isinstance(topic, re.Pattern):
        made = await _of_a_pattern(client, topic, options)
    else:
        made = await _of_names(client, _whole([topic] if isinstance(topic, str) else topic), options)
    await made.open()
    return made


async def _of_a_pattern(
    client: ClientPorts, pattern: re.Pattern[str], options: ConsumerOptions
) -> MultiTopicsConsumer:
    if options.retry_enable:
        raise InvalidConfiguration(
            "retry_enable needs names of topics, not a pattern: the retry-letter topic is named after the first topic"
        )
    options = replace(options, letters=await _letter_box(client, (), options))
    return PatternConsumer(client, TopicPattern(pattern), options)


async def _of_names(
    client: ClientPorts, names: list[str], options: ConsumerOptions
) -> MultiTopicsConsumer | TopicConsumer:
    box = await _letter_box(client, names, options)
    options = replace(options, letters=box)
    if box is not None and box.retry_topic is not None:
        # The same consumer gets the messages from the retry-letter topic.
        names = [*names, box.retry_topic]
    if len(names) > 1:
        return MultiTopicsConsumer(client, names, options)
    (name,) = names
    partitions = await client.partitions(name, create=options.create_topic)
    if options.queue_size == 0:
        if partitions > 1:
            raise InvalidConfiguration(
                f"a consumer without a queue is not supported for partitioned topics: {name} has {partitions}"
                f" partitions. Name one of them, such as {partition_name(name, 0)}"
            )
        return ZeroQueueConsumer(client, partition_name(name, 0) if partitions else name, options)
    return MultiTopicsConsumer(client, names, options) if partitions else TopicConsumer(client, name, options)


async def _letter_box(
    client: ClientPorts, topics: Sequence[str], options: ConsumerOptions
) -> LetterBox | None:
    return await open_letter_box(
        client,
        topics,
        subscription=options.subscription_name,
        given=options.dead_letter_policy,
        retry=options.retry_enable,
        on_ack_timeout=options.retry_on_ack_timeout,
        schema=options.schema,
    )


def _whole(topics: Sequence[str]) -> list[str]:
    if not isinstance(topics, Iterable):
        raise InvalidConfiguration(f"name a topic, a list of topics or a compiled pattern, not {topics!r}")
    names = list(dict.fromkeys(full_name(topic) for topic in topics))
    if not names:
        raise InvalidConfiguration("name the topics to subscribe to: the list is empty")
    return names
