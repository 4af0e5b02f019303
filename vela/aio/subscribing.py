"""Which kind of consumer a subscription makes."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from vela.aio.consumer import Consumer
from vela.aio.consumer_warnings import option_warnings
from vela.aio.letter_box import open_letter_box
from vela.aio.zero_queue import ZeroQueueConsumer
from vela.core.topic_name import full_name, partition_name
from vela.errors import InvalidConfiguration, OperationNotSupported

if TYPE_CHECKING:
    from vela.aio.client import Client
    from vela.aio.consumer_options import ConsumerOptions

__all__ = ["subscribe"]

log = logging.getLogger(__name__)


async def subscribe(client: Client, topic: str, options: ConsumerOptions) -> Consumer:
    """A consumer that is subscribed. Raises what `Client.subscribe` says."""
    name = full_name(topic)
    for warning in option_warnings(options):
        log.warning("%s, subscription %s: %s", name, options.subscription_name, warning)
    partitions = await client.partitions(name, create=options.create_topic)
    options = replace(options, letters=await open_letter_box(client, [name], options))
    if options.queue_size == 0:
        if partitions > 1:
            raise InvalidConfiguration(
                f"a consumer without a queue is not supported for partitioned topics: {name} has {partitions}"
                f" partitions. Name one of them, such as {partition_name(name, 0)}"
            )
        made: Consumer = ZeroQueueConsumer(client, partition_name(name, 0) if partitions else name, options)
    elif partitions:
        raise OperationNotSupported(f"{name} has {partitions} partitions: subscribe to one of them")
    else:
        made = Consumer(client, name, options)
    await made.open()
    return made
