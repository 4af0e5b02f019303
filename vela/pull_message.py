"""What the pull client gives the application."""

from __future__ import annotations

from vela.message import MessageId
from vela.wire.pull.reading import ReadMessage

__all__ = ["PulledMessage"]


class PulledMessage:
    """One message of one queue. The methods it shares with `Message` mean the same."""

    __slots__ = ("_read", "_topic", "attempts", "epoch", "queue")

    def __init__(self, read: ReadMessage, *, topic: str, queue: int, epoch: int) -> None:
        self._read = read
        self._topic = topic
        self.queue = queue
        """The queue: the partition, 0 where the topic has none."""
        self.epoch = epoch
        """Counts how often the broker has moved this queue's offset; used by the consumer."""
        self.attempts = 0
        """How often it was given back by `negative_acknowledge`, or by a listener that failed."""

    def data(self) -> bytes:
        """The payload."""
        return self._read.payload

    def properties(self) -> dict[str, str]:
        """The application's own names and values."""
        return self._read.properties

    def tag(self) -> str:
        """The property TAGS, "" when it has none."""
        return self._read.tag or ""

    def partition_key(self) -> str:
        """The key, "" when it has none."""
        return self._read.key or ""

    def offset(self) -> int:
        """Its number in the queue: messages before it since the topic began."""
        return self._read.offset

    def publish_timestamp(self) -> int:
        """When it was published, by the producer's clock: milliseconds since 1970 UTC."""
        return self._read.publish_time_ms

    def event_timestamp(self) -> int:
        """When what it tells of happened: milliseconds since 1970 UTC, 0 when the producer does not say."""
        return self._read.event_time_ms

    def message_id(self) -> MessageId:
        """Where it lies. Equal, but not identical, at each call."""
        found = self._read.message_id
        return MessageId(
            found.partition,
            found.ledger_id,
            found.entry_id,
            found.batch_index,
            batch_size=found.batch_size,
            topic=self._topic,
        )

    def topic_name(self) -> str:
        """The topic, without the partition."""
        return self._topic

    def redelivery_count(self) -> int:
        """`attempts`: the broker counts nothing for those who pull."""
        return self.attempts

    def __repr__(self) -> str:
        return f"<PulledMessage {self.offset()} of queue {self.queue} of {self._topic}, {len(self.data())} bytes>"
