"""Lanes: a task has one for each topic or partition to which it writes. A lane sends one entry at a time."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple, NoReturn

from pipeline.errors import OR_TWICE, BrokerUnavailable, DeduplicationOff
from pipeline.sink.options import WriteOptions
from pipeline.sink.rows import Row
from pipeline.sink.stored_schemas import EncodedSchema
from vela.aio import Client, Producer
from vela.core.producing.key_hash import boost_hash
from vela.errors import AuthenticationError, MessageTooBig, NotAllowedError, ProducerBusy, VelaError
from vela.message import MessageId
from vela.options import CompressionType

__all__ = ["Lanes"]

logger = logging.getLogger(__name__)

_BUSY_TIMEOUT_S: Final = 60.0  # how long a task waits for an earlier attempt that is still connected
_BUSY_PAUSE_S: Final = 0.5
_NEVER_MS: Final = 86_400_000  # a day, in effect no limit: the rows alone decide where entries end
_BLOCK_ROWS: Final = 1_000  # consecutive rows without a key that go to one partition
# With this property the broker refuses the producer if the topic does not deduplicate.
_REQUIRES_DEDUPLICATION: Final = {"vela.requires": "deduplication"}
_Answer = asyncio.Future[MessageId]
_COMPRESSIONS: Final = {
    "none": CompressionType.NONE,
    "lz4": CompressionType.LZ4,
    "zlib": CompressionType.ZLib,
    "zstd": CompressionType.ZSTD,
    "snappy": CompressionType.SNAPPY,
}


class Lanes:
    """The lanes of one task. Use it on one event loop. Its methods raise BrokerUnavailable and DeduplicationOff."""

    def __init__(
        self,
        client: Client,
        options: WriteOptions,
        *,
        producer_name: str,
        must_deduplicate: bool,
        offset: int,
    ) -> None:
        """`offset` makes tasks begin with different partitions."""
        self._client = client
        self._options = options
        self._producer_name = producer_name
        self._must_deduplicate = must_deduplicate
        self._offset = offset
        self._lanes: dict[str, list[_Lane]] = {}

    async def add(self, row: Row, topic: str, sequence_id: int) -> None:
        """Send a row, unless an earlier attempt has stored it. Sequence ids must ascend.

        Before a topic's first row, the schemas of the options are added to the topic. Raises BrokerUnavailable if the
        broker refuses one.
        """
        lanes = self._lanes.get(topic) or await self._lanes_of(topic)
        lane = lanes[0]
        if len(lanes) > 1:
            # Not at random: a repeated attempt must send each row to the same partition.
            number = boost_hash(row.key) if row.key else self._offset + sequence_id // _BLOCK_ROWS
            lane = lanes[number % len(lanes)]
        await lane.add(row, sequence_id)

    async def finish(self) -> None:
        """Wait until every row is stored, and close the producers."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        await asyncio.gather(*(lane.finish() for lane in lanes))

    @property
    def repeated(self) -> int:
        """The number of rows that an earlier attempt had stored."""
        return sum(lane.repeated for lanes in self._lanes.values() for lane in lanes)

    async def _lanes_of(self, topic: str) -> list[_Lane]:
        try:
            names = await self._client.get_topic_partitions(topic)
            for _, schema in sorted(self._options.schemas.items()):
                await self._client.get_or_create_schema(topic, schema)
        except VelaError as error:
            raise _refused(topic, error) from None
        lanes = self._lanes[topic] = [_Lane(self, name) for name in names]
        return lanes

    # The lanes use the members below.

    @property
    def options(self) -> WriteOptions:
        """The options of the write."""
        return self._options

    async def entry_limit_bytes(self, topic: str) -> int:
        """Return how large an entry may be so that the client does not send it in several pieces at once.

        If the broker refused one piece, it would still store the next.
        """
        try:
            connection = await self._client.connection_for(topic)
        except VelaError as error:
            raise _refused(topic, error) from None
        self._client.release(connection)
        return min(self._options.batch_bytes, connection.max_message_bytes // 2)

    async def open_producer(self, topic: str, schema_version: int | None) -> Producer:
        """Open the task's producer for rows of a schema version. Waits for an earlier attempt of the task to leave."""
        name, schema = self._producer_name, None
        if schema_version is not None:
            name, schema = (
                f"{name}-schema-{schema_version}",
                EncodedSchema(self._options.schemas[schema_version]),
            )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _BUSY_TIMEOUT_S
        while True:
            try:
                return await self._create_producer(
                    topic, name, schema, must_deduplicate=self._must_deduplicate
                )
            except ProducerBusy as error:
                if loop.time() > deadline:
                    raise _refused(topic, error) from None
                logger.info("%s: %s; the task tries again", topic, error)
                await asyncio.sleep(_BUSY_PAUSE_S)
            except NotAllowedError as error:
                if not self._must_deduplicate:
                    raise _refused(topic, error) from None
                await self._raise_for_not_allowed(topic, name, schema)
            except VelaError as error:
                raise _refused(topic, error) from None

    async def _create_producer(
        self, topic: str, name: str, schema: EncodedSchema | None, *, must_deduplicate: bool
    ) -> Producer:
        return await self._client.create_producer(
            topic,
            name,
            schema,
            send_timeout_millis=self._options.send_timeout_ms,
            compression_type=_COMPRESSIONS[self._options.compression],
            max_pending_messages=0,
            batching_enabled=True,
            batching_max_messages=2 * self._options.batch_rows,
            batching_max_allowed_size_in_bytes=1 << 30,  # `entry_limit_bytes` is lower
            batching_max_publish_delay_ms=_NEVER_MS,
            properties=_REQUIRES_DEDUPLICATION if must_deduplicate else None,
        )

    async def _raise_for_not_allowed(self, topic: str, name: str, schema: EncodedSchema | None) -> NoReturn:
        """Find out why the broker does not allow a producer that requires deduplication.

        The protocol has one code for everything that is not allowed, so this tries the same producer without the
        requirement. Raises DeduplicationOff if the broker allows it, else BrokerUnavailable.
        """
        try:
            await (await self._create_producer(topic, name, schema, must_deduplicate=False)).close()
        except VelaError as error:
            raise _refused(topic, error) from None
        raise DeduplicationOff(
            f"{topic} does not deduplicate, so rows would be stored twice after a failure: set its policy"
            f" deduplication{OR_TWICE}. Nothing was stored in it"
        )


class _Opened(NamedTuple):
    """A producer of a lane, and the sequence id up to which an earlier attempt has stored its rows."""

    producer: Producer
    stored: int


class _Lane:
    """One topic or partition.

    An entry is sent when the one before it is stored. So if a row is stored, all earlier rows of the lane are stored
    too. Therefore the highest sequence id that the broker has stored shows exactly which rows are missing. Until an
    entry is sent, the lane keeps its rows, because a producer that is closed after a failure still sends every row it
    was given.

    A producer has one schema, so rows of each version have their own producer, and an entry has rows of one version.
    """

    def __init__(self, lanes: Lanes, topic: str) -> None:
        self.repeated = 0
        self._lanes = lanes
        self._topic = topic
        self._opened: dict[int | None, _Opened] = {}  # by schema version; None = without a schema
        # Rows of the entry that is being filled, with their sequence ids, and the version of all of them.
        self._rows: list[tuple[Row, int]] = []
        self._version: int | None = None
        self._size_bytes = 0
        self._limit_bytes = lanes.options.batch_bytes  # of an entry
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, row: Row, sequence_id: int) -> None:
        """Add a row as `Lanes.add` describes, to the entry that is being filled."""
        version = row.schema_version if row.schema_version in self._lanes.options.schemas else None
        opened = self._opened.get(version) or await self._open(version)
        if sequence_id <= opened.stored:
            self.repeated += 1
            return
        size_bytes = row.size_bytes()
        if self._rows and (version != self._version or self._size_bytes + size_bytes > self._limit_bytes):
            await self._send_entry()
        self._version = version
        self._rows.append((row, sequence_id))
        self._size_bytes += size_bytes
        if len(self._rows) >= self._lanes.options.batch_rows or self._size_bytes >= self._limit_bytes:
            await self._send_entry()

    async def finish(self) -> None:
        """Wait until every row of the lane is stored, and close its producers."""
        if self._rows:
            await self._send_entry()
        if self._flushing is not None:
            await self._flushing
        for opened in self._opened.values():
            await opened.producer.close()

    async def _open(self, version: int | None) -> _Opened:
        producer = await self._lanes.open_producer(self._topic, version)
        self._limit_bytes = await self._lanes.entry_limit_bytes(self._topic)
        opened = self._opened[version] = _Opened(producer, producer.last_sequence_id())
        return opened

    async def _send_entry(self) -> None:
        """Send the added rows as one entry when the one before it is stored."""
        if self._flushing is not None:
            await self._flushing
        rows, self._rows, self._size_bytes = self._rows, [], 0
        self._flushing = asyncio.create_task(self._flush(self._opened[self._version].producer, rows))
        await asyncio.sleep(0)  # the entry is sent now, while the task's next rows are added

    async def _flush(self, producer: Producer, rows: list[tuple[Row, int]]) -> None:
        answers: list[_Answer] = []
        try:
            for row, sequence_id in rows:
                answers.append(_sent(producer, row, sequence_id))
            await producer.flush()
            for answer in answers:
                answer.result()  # a row that was refused before it was sent fails here
        except VelaError as error:
            for answer in answers:
                if answer.done() and not answer.cancelled():
                    answer.exception()  # otherwise asyncio logs each of them
            raise _refused(self._topic, error) from None


def _sent(producer: Producer, row: Row, sequence_id: int) -> _Answer:
    if not row.key_b64:
        return producer.send_async(
            row.value, row.properties, row.key, sequence_id=sequence_id, event_timestamp=row.event_time_ms
        )
    # The client has no argument for a binary key.
    message = producer.prepare(
        row.value, row.properties, row.key, sequence_id=sequence_id, event_timestamp=row.event_time_ms
    )
    answer: _Answer = asyncio.get_running_loop().create_future()
    producer.send_outgoing(message._replace(key_b64=True), answer)
    return answer


def _refused(topic: str, error: VelaError) -> BrokerUnavailable:
    if isinstance(error, MessageTooBig):
        # The client's own advice, chunks, is for programs that make their producers themselves.
        what = str(error).partition(": make it smaller")[0]
        return BrokerUnavailable(
            f"cannot write to {topic}: {what}: make the row smaller, set option compression, or raise the broker's"
            " VELA_MAX_MESSAGE_BYTES"
        )
    advice = ""
    if isinstance(error, AuthenticationError):
        advice = "; set option token or tokenFile, or VELA_TOKEN_FILE for the driver, which for a job is the worker"
    return BrokerUnavailable(f"cannot write to {topic}: {type(error).__name__}: {error}{advice}")
