"""What an application receives: `Message`, and `MessageId`, the name of one message.

A consumer makes a `Message` for every message it hands over, so one costs two assignments: it points at what the wire
said (`body`) and at what all messages of its entry have in common (`entry`); everything else is computed when asked.
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
    """What a message needs of its consumer's schema."""

    def decode_message(self, msg: Message) -> Any:
        """Return the value of a message."""


class ReceivedEntry:
    """What the messages of one delivered entry share. Made by consumers, once an entry; not part of the public API."""

    __slots__ = (
        "batch_size",
        "chunks",
        "encryption",
        "entry_id",
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
    redelivery_count: int  # how often the broker had delivered it before
    batch_size: int  # messages in the batch, 0 = not a batch
    schema: DecodesMessages | None  # None = values are bytes
    chunks: tuple[MessageId, ...]  # of a message that came in pieces: where each lies, in order
    encryption: EncryptionContext | None  # None: the payload was not encrypted
    generation: (
        int  # which of the receiver's connections it came over: acts on one of the past count for nothing
    )
    receiver: Any  # the consumer of one topic that it came to: acknowledgements go back there

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


@functools.total_ordering
class MessageId:
    """Where one message lies: ledger, entry, and its place in the batch when the entry is one.

    Ordered by ledger, entry, batch index, then partition; equal ids name the same message of one topic. Immutable and
    hashable; copied or pickled it is as one that was written down and read back. Ids of different topics are not
    comparable in any useful way.
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
        """-1 is "none" for partition and batch index. `first_chunk`: of a message in pieces, where it begins."""
        self._partition = partition
        self._ledger_id = ledger_id
        self._entry_id = entry_id
        self._batch_index = batch_index
        self._batch_size = batch_size
        self._topic = topic
        self._first_chunk = first_chunk
        self._entry = entry

    def ledger_id(self) -> int:
        """The ledger: a stretch of the topic's log."""
        return self._ledger_id

    def entry_id(self) -> int:
        """The entry's number within its ledger, from 0."""
        return self._entry_id

    def batch_index(self) -> int:
        """The message's place in its batch, from 0; -1 when it was sent alone."""
        return self._batch_index

    def batch_size(self) -> int:
        """Messages in the batch; 0 when it was sent alone, or when the id does not say."""
        return self._batch_size

    def partition(self) -> int:
        """The partition's number; -1 when the topic is not partitioned."""
        return self._partition

    def topic_name(self, topic: str | None = None) -> str:
        """The topic it is of, "" when not known. With an argument, as Apache's client has it: says which it is of."""
        if topic is not None:
            self._topic = topic
        return self._topic

    def first_chunk(self) -> MessageId | None:
        """Where a message that was sent in pieces begins; None when it was sent whole."""
        return self._first_chunk

    def received(self) -> ReceivedEntry | None:
        """Of an id that came with a message: what it was received with. Used by the acknowledging side."""
        return self._entry

    def serialize(self) -> bytes:
        """As bytes that `deserialize`, and Apache's clients, read. The topic is not among them."""
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
        """What `serialize`, here or in Apache's clients, wrote. `topic` is wanted by consumers of several topics.

        Raises InvalidMessageId, a ValueError, for other bytes.
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
        """Copied or pickled: without the consumer that it came to, which stays where it is."""
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
    """What pickles of ids name."""
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
    """One received message. Reading it costs nothing on the network and is allowed from any thread.

    It cannot be pickled or copied deeply: that raises TypeError. Keep what it says, and its id.

    `body` and `entry` belong to the client itself; use the methods.
    """

    __slots__ = ("body", "entry")

    def __init__(self, body: Body, entry: ReceivedEntry) -> None:
        self.body = body
        self.entry = entry

    def data(self) -> bytes:
        """The payload, decrypted and decompressed; b"" for a null value."""
        return self.body.payload

    def value(self) -> Any:
        """The payload as the consumer's schema reads it; without a schema the bytes. None for a null value.

        Raises what the schema raises when the payload does not follow it.
        """
        if self.body.null_value:
            return None
        schema = self.entry.schema
        return self.body.payload if schema is None else schema.decode_message(self)

    def has_null_value(self) -> bool:
        """Whether it was sent with content None: on a compacted topic, "forget this key"."""
        return self.body.null_value

    def properties(self) -> dict[str, str]:
        """The application's own names and values; a copy, at each call."""
        return dict(self.body.properties)

    def partition_key(self) -> str:
        """The key, "" when it has none. A binary key is given in base64."""
        return self.body.key or ""

    def has_base64_encoded_key(self) -> bool:
        """Whether `partition_key()` is the base64 text of a binary key."""
        return self.body.key_b64

    def ordering_key(self) -> str:
        """The key that Key_Shared subscriptions order by in place of the partition key, "" when it has none."""
        ordering_key = self.body.ordering_key
        return ordering_key.decode("utf-8", "surrogateescape") if ordering_key else ""

    def publish_timestamp(self) -> int:
        """When it was published, by the producer's clock: milliseconds since 1970 UTC."""
        return self.body.publish_time_ms

    def event_timestamp(self) -> int:
        """When what it tells of happened, by the application: milliseconds since 1970 UTC, 0 when it does not say."""
        return self.body.event_time_ms

    def message_id(self) -> MessageId:
        """Where it lies. Equal, but not identical, at each call."""
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
        """The topic it came from, in full and with the partition."""
        return self.entry.topic

    def redelivery_count(self) -> int:
        """How often it had been given to a consumer of the subscription before, as far as the broker counts it."""
        return self.entry.redelivery_count

    def schema_version(self) -> bytes:
        """The version of the schema it was written with, as the broker gave it to the producer; b"" without schema."""
        return self.body.schema_version

    def int_schema_version(self) -> int:
        """`schema_version()` as a number, -1 without schema."""
        version = self.body.schema_version
        return int.from_bytes(version, "big", signed=True) if version else -1

    def producer_name(self) -> str:
        """Who published it."""
        return self.body.producer_name

    def sequence_id(self) -> int:
        """The number that its producer gave it."""
        return self.body.sequence_id

    def encryption_context(self) -> EncryptionContext | None:
        """What it was encrypted with; None when it was not encrypted."""
        return self.entry.encryption

    def __copy__(self) -> Message:
        return Message(self.body, self.entry)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a message is not pickled or copied deeply, it belongs to its consumer: "
            "keep its data(), properties() and message_id()"
        )

    def __repr__(self) -> str:
        return f"<Message {self.message_id()} of {self.entry.topic}, {len(self.body.payload)} bytes>"
