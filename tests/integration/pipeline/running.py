"""A running Vela that Spark reads from and writes to."""

from __future__ import annotations

import base64

from pyspark.sql import DataFrame, SparkSession

import vela as client_of_vela
from pipeline.checksum import Checksum, message_digest
from tests.support.vela import VelaProcess

__all__ = ["Broker", "key_of"]


class Broker:
    """A running Vela, as Spark and clients use it."""

    def __init__(self, spark: SparkSession, process: VelaProcess) -> None:
        self.spark = spark
        self.process = process
        self.client = client_of_vela.Client(process.pulsar_url)

    def topic(self, name: str) -> str:
        """Create a topic and return its full name.

        All topics deduplicate except those of public/plain. Those of public/parts have three partitions.
        """
        full = f"persistent://{name}" if "/" in name else f"persistent://public/default/{name}"
        self.client.create_producer(full).close()
        return full

    def read(self, topic: str, **options: str) -> DataFrame:
        """Return a topic's messages as a DataFrame."""
        return (
            self.spark.read.format("vela")
            .options(topic=topic, url=self.process.database_url, **options)
            .load()
        )

    def stored(self, topic: str) -> list[client_of_vela.Message]:
        """Return a topic's messages in order, partition by partition, as clients get them. Spark would be slower."""
        found = []
        for name in self.client.get_topic_partitions(topic):
            with self.client.create_reader(name, client_of_vela.MessageId.earliest) as reader:
                while reader.has_message_available():
                    found.append(reader.read_next(timeout_millis=10_000))
        return found

    def values(self, topic: str) -> list[str]:
        """Return the payloads of a topic's messages as texts."""
        return [message.data().decode(errors="replace") for message in self.stored(topic)]

    def checksum_of(self, topic: str) -> Checksum:
        """Return the checksum of all messages of a topic."""
        return Checksum.of_digests(
            message_digest(message.value(), key_of(message), message.properties(), message.event_timestamp())
            for message in self.stored(topic)
        )

    def publish(self, topic: str, numbers: range) -> None:
        """Publish numbers as messages, in batches of ten."""
        producer = self.client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
        for number in numbers:
            producer.send_async(b"%d" % number, None, partition_key=f"k{number % 7}")
        producer.flush()
        producer.close()

    @staticmethod
    def checksum(numbers: range) -> Checksum:
        """Return the checksum of what `publish` sends for these numbers."""
        return Checksum.of_digests(
            message_digest(b"%d" % number, b"k%d" % (number % 7), {}, 0) for number in numbers
        )


def key_of(message: client_of_vela.Message) -> bytes | None:
    """Return the key's bytes, or None if the message has no key."""
    key = message.body.key
    if key is None:
        return None
    return base64.b64decode(key) if message.has_base64_encoded_key() else key.encode()
