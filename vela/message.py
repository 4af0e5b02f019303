"""What an application receives: `Message`, and `MessageId`, which identifies a message.

A consumer creates a `Message` object for every message, so creating one must be cheap. The object only refers to the
decoded message (`body`) and to the data that all messages of an entry share (`entry`). It computes everything else on
demand.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol

from google.protobuf.message import DecodeError

from vela.errors import InvalidMessageId
from vela.wire.pb.vela_pulsar_pb2 import MessageIdData

if TYPE_CHECKING:
    from vela.encryption.context import EncryptionContext
    from vela.wire.entry import Message as Body

__all__ = ["Message", "MessageId", "ReceivedEntry"]


class DecodesMessages(Protocol):
    """The part of a consumer's schema that a message needs."""

    def decode_message(self, msg: Message) -> Any:
        """Return the value of a message."""


class ReceivedEntry:
    """The data that all messages of one delivered entry share. Not public API."""

    __slots__ = (
        "batch_size",
        "chunks",
        "encryption",
        "entry_id",
        "epoch",
        "generation",
        "ledger_id",
        "partition",
        "receiver",
        "redelivery_count",
        "schema",
        "topic",
    )

    topic: str  # full name, with the partition
    ledger_id: int
    entry_id: int
    partition: int  # -1: the topic is not partitioned
    redelivery_count: int  # how often consumers asked to get the entry again, by the broker's count
    batch_size: int  # messages in the batch, 0 = not a batch
    schema: DecodesMessages | None  # None = values are bytes
    chunks: tuple[MessageId, ...]  # the ids of a chunked message's chunks, in order
    encryption: EncryptionContext | None  # None: the payload was not encrypted
    generation: int  # number of the receiver's connection that brought the entry
    # how often the receiver had requested everything again when the entry arrived; None on Shared and Key_Shared
    epoch: int | None
    receiver: Any  # the single-topic consumer that received the entry and acknowledges it

    def __init__(
        self,
        topic: str,
        ledger_id: int,
        entry_id: int,
        partition: int = -1,
        redelivery_count: int = 0,
        batch_size: int = 0,
        schema: DecodesMessages | None = None,
        receiver: Any = None,
    ) -> None:
        self.topic = topic
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.partition = partition
        self.redelivery_count = redelivery_count
        self.batch_size = batch_size
        self.schema = schema
        self.receiver = receiver
        self.chunks = ()
        self.encryption = None
        self.generation = 0
        self.epoch = None


@functools.total_ordering
class MessageId:
    """The position of a message: ledger, entry, and its index if the entry is a batch.

    Ids are ordered by ledger, entry, batch index and then partition. Equal ids identify the same message of a topic.
    Ids are hashable, and nothing but their topic can be changed. A copied or pickled id keeps its topic, but not
    `received()`. Comparing ids of different topics has no meaning.
    """

    __slots__ = (
        "_batch_index",
        "_batch_size",
        "_entry",
        "_entry_id",
        "_first_chunk",
        "_ledger_id",
        "_partition",
        "_topic",
    )

    earliest: ClassVar[MessageId]
    """Before the oldest message that the topic keeps."""
    latest: ClassVar[MessageId]
    """After the newest message of the topic."""

    def __init__(
        self,
        partition: int = -1,
        ledger_id: int = -1,
        entry_id: int = -1,
        batch_index: int = -1,
        *,
        batch_size: int = 0,
        topic: str = "",
        first_chunk: MessageId | None = None,
        entry: ReceivedEntry | None = None,
    ) -> None:
        """For partition and batch index, -1 means none. `first_chunk` is the id of a chunked message's first chunk."""
        self._partition = partition
        self._ledger_id = ledger_id
        self._entry_id = entry_id
        self._batch_index = batch_index
        self._batch_size = batch_size
        self._topic = topic
        self._first_chunk = first_chunk
        self._entry = entry

    def ledger_id(self) -> int:
        """Return the ledger, a part of the topic's log."""
        return self._ledger_id

    def entry_id(self) -> int:
        """Return the entry's number in its ledger, from 0."""
        return self._entry_id

    def batch_index(self) -> int:
        """Return the message's index in its batch, from 0; -1 if it was sent alone."""
        return self._batch_index

    def batch_size(self) -> int:
        """Return the number of messages in the batch; 0 if the message was sent alone or the id does not say."""
        return self._batch_size

    def partition(self) -> int:
        """Return the partition's number; -1 if the topic is not partitioned."""
        return self._partition

    def topic_name(self, topic: str | None = None) -> str:
        """Return the topic, "" if it is unknown. With an argument, set the topic, as in Apache's client."""
        if topic is not None:
            self._topic = topic
        return self._topic

    def first_chunk(self) -> MessageId | None:
        """Return the id of a chunked message's first chunk; None if the message was not chunked."""
        return self._first_chunk

    def received(self) -> ReceivedEntry | None:
        """Return the entry of the received message that the id is from; None for other ids, and for copies."""
        return self._entry

    def serialize(self) -> bytes:
        """Return bytes that `deserialize` and Apache's clients can read. They do not include the topic."""
        data = MessageIdData(ledgerId=self._ledger_id & _UINT64, entryId=self._entry_id & _UINT64)
        if self._partition >= 0:
            data.partition = self._partition
        if self._batch_index >= 0:
            data.batch_index = self._batch_index
        if self._batch_size > 0:
            data.batch_size = self._batch_size
        if self._first_chunk is not None:
            data.first_chunk_message_id.MergeFromString(self._first_chunk.serialize())
        return data.SerializeToString()

    @staticmethod
    def deserialize(message_id_bytes: bytes, topic: str | None = None) -> MessageId:
        """Read bytes that `serialize` of this client or of an Apache client has written.

        Consumers of several topics need `topic`. Raises InvalidMessageId, a ValueError, for other bytes.
        """
        try:
            data = MessageIdData.FromString(message_id_bytes)
        except (DecodeError, TypeError):
            raise InvalidMessageId("not a message id: these bytes are not protobuf") from None
        if not data.IsInitialized():
            raise InvalidMessageId("not a message id: ledger or entry is missing")
        first = data.first_chunk_message_id if data.HasField("first_chunk_message_id") else None
        return _from_data(data, topic or "", None if first is None else _from_data(first, topic or "", None))

    def _order(self) -> tuple[int, int, int, int]:
        return self._ledger_id, self._entry_id, self._batch_index, self._partition

    def __eq__(self, other: object) -> bool:
        return self._order() == other._order() if isinstance(other, MessageId) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._order() < other._order() if isinstance(other, MessageId) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._order())

    def __str__(self) -> str:
        return f"({self._ledger_id},{self._entry_id},{self._partition},{self._batch_index})"

    def __repr__(self) -> str:
        return f"MessageId{self}"

    def __reduce__(self) -> tuple[object, ...]:
        """Copy or pickle the id without the consumer that received the message."""
        place = self._partition, self._ledger_id, self._entry_id, self._batch_index
        return _again, (*place, self._batch_size, self._topic, self._first_chunk)


def _again(
    partition: int,
    ledger_id: int,
    entry_id: int,
    batch_index: int,
    batch_size: int,
    topic: str,
    first_chunk: MessageId | None,
) -> MessageId:
    """Create an id from its pickled parts. Pickled ids refer to this function by its name."""
    return MessageId(
        partition,
        ledger_id,
        entry_id,
        batch_index,
        batch_size=batch_size,
        topic=topic,
        first_chunk=first_chunk,
    )


_UINT64: Final = (1 << 64) - 1
_INT64_MAX: Final = (1 << 63) - 1


def _from_data(data: MessageIdData, topic: str, first_chunk: MessageId | None) -> MessageId:
    return MessageId(
        data.partition,
        _signed(data.ledgerId),
        _signed(data.entryId),
        data.batch_index,
        batch_size=data.batch_size,
        topic=topic,
        first_chunk=first_chunk,
    )


def _signed(value: int) -> int:
    return value - (1 << 64) if value > _INT64_MAX else value


MessageId.earliest = MessageId(-1, -1, -1, -1)
MessageId.latest = MessageId(-1, _INT64_MAX, _INT64_MAX, -1)


class Message:
    """A received message. Its methods do not use the network, and any thread may call them.

    A message cannot be pickled or deep-copied: that raises TypeError. Keep its data and its id instead. `body` and
    `entry` are for the client itself; use the methods.
    """

    __slots__ = ("body", "entry")

    def __init__(self, body: Body, entry: ReceivedEntry) -> None:
        self.body = body
        self.entry = entry

    def data(self) -> bytes:
        """Return the payload, decrypted and decompressed; b"" for a null value.

        It is neither if `encryption_context()` says that decryption failed.
        """
        return self.body.payload

    def value(self) -> Any:
        """Return the payload decoded by the consumer's schema, or the bytes without a schema. None for a null value.

        Raises the schema's error if the payload does not match the schema.
        """
        if self.body.null_value:
            return None
        schema = self.entry.schema
        return self.body.payload if schema is None else schema.decode_message(self)

    def has_null_value(self) -> bool:
        """Return whether the message was sent with content None. On a compacted topic that means "forget this key"."""
        return self.body.null_value

    def properties(self) -> dict[str, str]:
        """Return a copy of the application's properties."""
        return dict(self.body.properties)

    def partition_key(self) -> str:
        """Return the key, "" if there is none. A binary key is in base64."""
        return self.body.key or ""

    def has_base64_encoded_key(self) -> bool:
        """Return whether `partition_key()` is the base64 text of a binary key."""
        return self.body.key_b64

    def ordering_key(self) -> str:
        """Return the key that Key_Shared uses instead of the partition key, "" if there is none."""
        ordering_key = self.body.ordering_key
        return ordering_key.decode("utf-8", "surrogateescape") if ordering_key else ""

    def publish_timestamp(self) -> int:
        """Return the time of publishing by the producer's clock, in milliseconds since 1970 UTC."""
        return self.body.publish_time_ms

    def event_timestamp(self) -> int:
        """Return the event time that the application set, in milliseconds since 1970 UTC; 0 if there is none."""
        return self.body.event_time_ms

    def message_id(self) -> MessageId:
        """Return the message's id. Each call returns an equal, new object."""
        entry = self.entry
        return MessageId(
            entry.partition,
            entry.ledger_id,
            entry.entry_id,
            self.body.batch_index,
            batch_size=entry.batch_size,
            topic=entry.topic,
            first_chunk=entry.chunks[0] if entry.chunks else None,
            entry=entry,
        )

    def topic_name(self) -> str:
        """Return the full name of the message's topic, with the partition."""
        return self.entry.topic

    def redelivery_count(self) -> int:
        """Return how often consumers asked to get the message again, by the broker's count.

        It is 0 at the first delivery, and always for Exclusive and Failover subscriptions, where Vela does not count.
        """
        return self.entry.redelivery_count

    def schema_version(self) -> bytes:
        """Return the version that the broker assigned to the producer's schema; b"" without a schema."""
        return self.body.schema_version

    def int_schema_version(self) -> int:
        """Return `schema_version()` as a number; -1 without a schema."""
        version = self.body.schema_version
        return int.from_bytes(version, "big", signed=True) if version else -1

    def producer_name(self) -> str:
        """Return the name of the producer."""
        return self.body.producer_name

    def sequence_id(self) -> int:
        """Return the sequence id that the producer assigned."""
        return self.body.sequence_id

    def encryption_context(self) -> EncryptionContext | None:
        """Return how the message was encrypted; None if it was not."""
        return self.entry.encryption

    def __copy__(self) -> Message:
        return Message(self.body, self.entry)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a message belongs to its consumer and cannot be pickled or deep-copied: "
            "keep its data(), properties() and message_id()"
        )

    def __repr__(self) -> str:
        return f"<Message {self.message_id()} of {self.entry.topic}, {len(self.body.payload)} bytes>"
