"""Create a producer for a topic, partitioned or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vela.aio.producers.partitioned_producer import PartitionedProducer
from vela.aio.producers.producer import Producer
from vela.aio.producers.topic_producer import TopicProducer
from vela.core.argument_checks import require_methods
from vela.core.producing.options import ProducerOptions
from vela.encryption import AbstractCryptoKeyReader
from vela.encryption.encryptor import Encryptor
from vela.errors import InvalidConfiguration
from vela.wire.entry.sealing import Encrypt

if TYPE_CHECKING:
    from vela.aio.client_ports import ClientPorts

__all__ = ["encryption_of", "open_producer"]


async def open_producer(client: ClientPorts, topic: str, options: ProducerOptions) -> Producer:
    """Open a producer for `topic`, a full topic name. Raises the errors of `Client.create_producer`."""
    partitions = await client.partitions(topic)
    producer: TopicProducer | PartitionedProducer
    if partitions:
        producer = PartitionedProducer(client, topic, options, partitions)
    else:
        producer = TopicProducer(client, topic, options)
    client.keep(producer)  # `Client.close` must close the producer even while it opens
    try:
        await producer.open()
    except BaseException:
        client.forget(producer)
        raise
    return producer


def encryption_of(
    key_names: str | Sequence[str] | None, key_reader: AbstractCryptoKeyReader | None
) -> Encrypt | None:
    """Return a function that encrypts payloads for these keys, or None if neither keys nor a key reader are given.

    Raises InvalidConfiguration if an argument is missing or wrong, and CryptoError if a public key cannot be read.
    """
    if not key_names and key_reader is None:
        return None
    if not key_names or key_reader is None:
        raise InvalidConfiguration("encryption needs both encryption_key and crypto_key_reader")
    require_methods("crypto_key_reader", key_reader, "get_public_key")
    names = [key_names] if isinstance(key_names, str) else key_names
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidConfiguration(f"encryption_key must be a name or a list of names, not {key_names!r}")
    return Encryptor(names, key_reader).encrypt
