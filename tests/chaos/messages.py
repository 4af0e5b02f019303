"""Messages of the soaks: publish them, and read them back."""

from __future__ import annotations

import secrets
from typing import Final

import vela as client_of_vela
from pipeline.checksum import Checksum, message_digest
from pipeline.jobs.replay import FROM_PROPERTY, REPLAYS_PROPERTY

__all__ = ["checksum_of", "publish", "stored"]

_KEYS: Final = 100


def publish(client: client_of_vela.Client, topic: str, numbers: range) -> dict[str, bytes]:
    """Publish a message for each number, in batches, with _KEYS keys. Return each key's latest value."""
    latest: dict[str, bytes] = {}
    producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    for number in numbers:
        key, value = f"k{number % _KEYS}", b"%d %s" % (number, secrets.token_bytes(20))
        producer.send_async(value, None, partition_key=key)
        latest[key] = value
    producer.flush()
    producer.close()
    return latest


def checksum_of(client: client_of_vela.Client, topic: str) -> Checksum:
    """Return the checksum of a topic's messages as clients read them, without the properties that a replay adds."""
    return Checksum.of_digests(
        message_digest(each.data(), str(each.partition_key()).encode(), _own_properties(each), 0)
        for each in stored(client, topic)
    )


def _own_properties(message: client_of_vela.Message) -> dict[str, str]:
    return {
        name: value
        for name, value in message.properties().items()
        if name not in (FROM_PROPERTY, REPLAYS_PROPERTY)
    }


def stored(
    client: client_of_vela.Client, topic: str, *, is_compacted: bool = False
) -> list[client_of_vela.Message]:
    """Return a topic's messages in order, as clients get them."""
    found = []
    with client.create_reader(
        topic, client_of_vela.MessageId.earliest, is_read_compacted=is_compacted
    ) as reader:
        while reader.has_message_available():
            found.append(reader.read_next(60_000))
    return found
