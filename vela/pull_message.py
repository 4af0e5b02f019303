"""The messages that an application gets from the pull client."""

from __future__ import annotations

from vela.message import MessageId
from vela.wire.pull.reading import ReadMessage

__all__ = ["PulledMessage"]


class PulledMessage:
    """A message that the pull client got from a queue."""

    __slots__ = ("_read", "_topic", "attempts", "epoch", "queue")

    def __init__(self, read: ReadMessage, *, topic: str, queue: int, epoch: int) -> None:
        self._read = read
        self._topic = topic
        self.queue = queue
        """The queue: the partition's number, 0 if the topic is not partitioned."""
        self.epoch = epoch
        """How often the broker has moved this queue's offset. For the consumer's own use."""
        self.attempts = 0
        """How often `negative_acknowledge` or a failed listener has returned the message."""

    def data(self) -> bytes:
        """Return the payload."""
        return self._read.payload

    def properties(self) -> dict[str, str]:
        """Return the application's properties."""
        return self._read.properties

    def tag(self) -> str:
        """Return the property TAGS, "" if there is none."""
        return self._read.tag or ""

    def partition_key(self) -> str:
        """Return the key, "" if there is none."""
        return self._read.key or ""

    def offset(self) -> int:
        """Return the message's number in the queue: how many messages came before it since the topic began."""
        return self._read.offset

    def publish_timestamp(self) -> int:
        """Return the time of publishing by the producer's clock, in milliseconds since 1970 UTC."""
        return self._read.publish_time_ms

    def event_timestamp(self) -> int:
        """Return the event time that the application set, in milliseconds since 1970 UTC; 0 if there is none."""
        return self._read.event_time_ms

    def message_id(self) -> MessageId:
        """Return the message's id. Each call returns an equal, new object."""
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
        """Return the topic's full name, without the partition."""
        return self._topic

    def redelivery_count(self) -> int:
        """Return `attempts`, since the broker does not count redeliveries of pulls."""
        return self.attempts

    def __repr__(self) -> str:
        return f"<PulledMessage {self.offset()} of queue {self.queue} of {self._topic}, {len(self.data())} bytes>"
