"""The broker's end of Pulsar's binary protocol, without I/O.

This file is long because each answer has its own method.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from broker.core.errors import AnswerTooLarge
from broker.doors.binary.wire import answers
from broker.doors.binary.wire.decoding import (
    HAVE_SLICES,
    SLICE_IDS,
    decode_event,
    decode_plain_send,
    decode_slices,
)
from broker.doors.binary.wire.events import Connect, Event, Unsupported
from vela.wire.binary import commands
from vela.wire.binary.commands import NO_REQUEST
from vela.wire.binary.enums import ServerError, SubType
from vela.wire.binary.fields import parse_command
from vela.wire.binary.frames import Frame, FrameDecoder
from vela.wire.binary.handshake import PROTOCOL_VERSION, ConnectionState
from vela.wire.binary.schema import Schema
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.errors import LocalProtocolError, MalformedCommand, RemoteProtocolError, UnexpectedCommand
from vela.wire.message_id import MessageId
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

__all__ = ["ServerEngine"]

_EVERY_COMMAND: Final = 1 << 62
_LONG_COMMAND_BYTES: Final = 1024
_BYTES_LIKE_A_COMMAND: Final = 128
_IDS_LIKE_A_COMMAND: Final = 8
# A client that gets an unknown command closes the connection.
_ACTIVE_CHANGE_VERSION: Final = 12  # First protocol version with ACTIVE_CONSUMER_CHANGE
_CLOSE_VERSION: Final = 5  # First protocol version with CLOSE_PRODUCER and CLOSE_CONSUMER
# Only clients whose version begins with one of these texts know REACHED_END_OF_TOPIC.
_END_OF_TOPIC_CLIENTS: Final = (
    "Pulsar-Java",
    "Vela-",
)
_END_OF_TOPIC_VERSION: Final = 9


_EVERY_TYPE: Final = frozenset(BaseCommand.Type.values())
_ACCEPTS: Final[Mapping[ConnectionState, frozenset[int]]] = {
    ConnectionState.START: frozenset({BaseCommand.CONNECT}),
    ConnectionState.CONNECTING: frozenset({BaseCommand.AUTH_RESPONSE}),
    ConnectionState.CONNECTED: _EVERY_TYPE - {BaseCommand.CONNECT},
    ConnectionState.FAILED: frozenset(),
}


class ServerEngine:
    """The protocol state of one connection.

    The owner passes received bytes to `receive`, handles the events in order, and writes the bytes of `data_to_send`.
    After a RemoteProtocolError, the owner handles the error's `events`, writes the remaining bytes, and closes the
    connection.
    """

    def __init__(self, *, server_version: str, max_message_bytes: int) -> None:
        self._server_version = server_version
        self._max_message_bytes = max_message_bytes
        # A client that gets a longer frame closes its connection, reconnects and asks again.
        self._longest_answer_bytes = max_message_bytes + FRAME_PADDING_BYTES
        self._decoder = FrameDecoder(max_message_bytes + FRAME_PADDING_BYTES)
        self._frames: deque[Frame] = deque()
        self._slices: Iterator[Event] | None = None
        self._failure: RemoteProtocolError | None = None
        self._state = ConnectionState.START
        self._accepts = _ACCEPTS[ConnectionState.START]
        self._out: list[bytes] = []
        self._out_bytes = 0
        self.client_version = ""
        self.protocol_version = 0  # 0 before CONNECT

    @property
    def state(self) -> ConnectionState:
        """The state of the handshake."""
        return self._state

    @property
    def has_more(self) -> bool:
        """Whether `receive` stopped at its limit and must be called again."""
        return self._is_decoding or self._decoder.has_uncut

    @property
    def _is_decoding(self) -> bool:
        return bool(self._frames) or self._slices is not None

    def receive(self, data: bytes | bytearray | memoryview, *, most: int = _EVERY_COMMAND) -> list[Event]:
        """Decode bytes from the peer and return the events of complete commands.

        The argument `most` limits the number of commands. A long command counts as several. While `has_more` is True,
        call this method again, with or without new bytes.

        If the peer violates the protocol, this method enters state FAILED and raises RemoteProtocolError. The error's
        `events` are the valid commands before the violation. Raises LocalProtocolError if the state is already FAILED.
        """
        if self._state is ConnectionState.FAILED:
            raise LocalProtocolError("the connection has failed: close it and pass it no more bytes")
        events: list[Event] = []
        try:
            if data or not self._is_decoding:
                self._cut(data, most)
            self._decode_into(events, most)
            if self._failure is not None and not self._is_decoding:
                raise self._failure
        except RemoteProtocolError as error:
            self._enter(ConnectionState.FAILED)
            error.events = tuple(events)
            raise
        return events

    def drop_input(self) -> None:
        """Free the bytes that are not decoded yet. Do not call `receive` afterwards."""
        self._frames.clear()
        self._slices = None
        self._decoder = FrameDecoder(self._max_message_bytes + FRAME_PADDING_BYTES)

    def _cut(self, data: bytes | bytearray | memoryview, most: int) -> None:
        try:
            self._decoder.feed_into(data, self._frames, most=most)
        except RemoteProtocolError as error:
            self._failure = error

    def _decode_into(self, events: list[Event], most: int) -> None:
        frames = self._frames
        while most > 0:
            if self._slices is not None:
                most -= self._take_slice(self._slices, events)
            elif frames:
                frame = frames.popleft()
                most -= 1 + len(frame.command) // _BYTES_LIKE_A_COMMAND
                self._decode(frame, events)
            else:
                return

    def _take_slice(self, slices: Iterator[Event], events: list[Event]) -> int:
        event = next(slices, None)
        if event is None:
            self._slices = None
            return 0
        events.append(event)
        return SLICE_IDS // _IDS_LIKE_A_COMMAND

    def _decode(self, frame: Frame, events: list[Event]) -> None:
        if self._state is ConnectionState.CONNECTED and (send := decode_plain_send(frame)) is not None:
            events.append(send)
            return
        command = parse_command(frame.command)
        if command.type not in self._accepts:
            self._refuse(command)
        if len(frame.command) > _LONG_COMMAND_BYTES and command.type in HAVE_SLICES:
            self._slices = decode_slices(command, frame)
            return
        event = decode_event(command, frame)
        if isinstance(event, Connect):
            self.client_version = event.client_version
            self.protocol_version = min(PROTOCOL_VERSION, max(event.protocol_version, 0))
            self._enter(ConnectionState.CONNECTING)
        events.append(event)

    def _refuse(self, command: BaseCommand) -> None:
        # Protobuf reads a missing or unknown type as the enum's first value.
        if not command.HasField("type"):
            raise MalformedCommand("the command's type is missing or unknown")
        name = BaseCommand.Type.Name(command.type)
        raise UnexpectedCommand(f"{name} must not be sent in state {self._state.value!r} of the connection")

    def _enter(self, state: ConnectionState) -> None:
        self._state = state
        self._accepts = _ACCEPTS[state]

    def data_to_send(self) -> list[bytes]:
        """Return the buffers to write, and forget them."""
        out, self._out = self._out, []
        self._out_bytes = 0
        return out

    @property
    def pending_bytes(self) -> int:
        """Number of bytes that `data_to_send` would return."""
        return self._out_bytes

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)

    def send_connected(self) -> None:
        """Send CONNECTED. Raises LocalProtocolError unless a CONNECT waits for an answer."""
        if self._state is not ConnectionState.CONNECTING:
            raise LocalProtocolError(f"no CONNECT waits for an answer in state {self._state.value!r}")
        self._enter(ConnectionState.CONNECTED)
        self._write(
            answers.connected(
                server_version=self._server_version,
                protocol_version=self.protocol_version,
                max_message_bytes=self._max_message_bytes,
            )
        )

    def refuse_connection(self, code: ServerError, message: str) -> None:
        """Send ERROR and enter state FAILED. The owner must then write the bytes and close the connection."""
        self._enter(ConnectionState.FAILED)
        self._write(answers.error(NO_REQUEST, code, message))

    def send_auth_challenge(self, method: str, challenge: bytes) -> None:
        """Send AUTH_CHALLENGE."""
        self._write(
            answers.auth_challenge(
                server_version=self._server_version,
                protocol_version=self.protocol_version,
                auth_method=method,
                challenge=challenge,
            )
        )

    def send_ping(self) -> None:
        """Send PING."""
        self._write(commands.ping())

    def send_pong(self) -> None:
        """Send PONG."""
        self._write(commands.pong())

    def send_success(self, request_id: int) -> None:
        """Send SUCCESS."""
        self._write(answers.success(request_id))

    def send_error(self, request_id: int, code: ServerError, message: str) -> None:
        """Send ERROR."""
        self._write(answers.error(request_id, code, message))

    def send_unsupported(self, event: Unsupported, message: str) -> None:
        """Send ERROR if the client waits for an answer."""
        if event.request_id is None:
            return
        self._write(answers.error(event.request_id, ServerError.NOT_ALLOWED_ERROR, message))

    def send_schema(self, request_id: int, schema: Schema, version: bytes) -> None:
        """Send GET_SCHEMA_RESPONSE."""
        self._write(answers.schema_response(request_id, schema, version))

    def send_schema_version(self, request_id: int, version: bytes) -> None:
        """Send GET_OR_CREATE_SCHEMA_RESPONSE."""
        self._write(answers.schema_version(request_id, version))

    def send_schema_refused(
        self, request_id: int, code: ServerError, message: str, *, creating: bool
    ) -> None:
        """Refuse GET_OR_CREATE_SCHEMA if `creating` is True, otherwise GET_SCHEMA."""
        self._write(answers.schema_refused(request_id, code, message, creating=creating))

    def send_partition_metadata(self, request_id: int, partitions: int) -> None:
        """Send PARTITIONED_METADATA_RESPONSE. `partitions` is 0 if the topic is not partitioned."""
        self._write(answers.partition_metadata_response(request_id, partitions))

    def send_partition_metadata_failed(self, request_id: int, code: ServerError, message: str) -> None:
        """Send PARTITIONED_METADATA_RESPONSE with an error."""
        self._write(answers.partition_metadata_failed(request_id, code, message))

    def send_lookup(
        self,
        request_id: int,
        *,
        url: str,
        url_tls: str | None = None,
        proxy_through_service_url: bool = True,
    ) -> None:
        """Send LOOKUP_RESPONSE."""
        self._write(
            answers.lookup_response(
                request_id, url=url, url_tls=url_tls, proxy_through_service_url=proxy_through_service_url
            )
        )

    def send_lookup_failed(self, request_id: int, code: ServerError, message: str) -> None:
        """Send LOOKUP_RESPONSE with an error."""
        self._write(answers.lookup_failed(request_id, code, message))

    def send_topics_of_namespace(
        self, request_id: int, topics: Sequence[str], *, is_filtered: bool, known_hash: str | None = None
    ) -> None:
        """Send GET_TOPICS_OF_NAMESPACE_RESPONSE.

        Raises AnswerTooLarge, and sends nothing, if the list does not fit into a frame.
        """
        self._write_list(
            answers.topics_of_namespace(request_id, topics, is_filtered=is_filtered, known_hash=known_hash),
            topics=len(topics),
        )

    def send_watch_success(
        self, request_id: int, watcher_id: int, names: frozenset[str], *, known_hash: str | None
    ) -> None:
        """Send WATCH_TOPIC_LIST_SUCCESS.

        Raises AnswerTooLarge, and sends nothing, if the list does not fit into a frame.
        """
        self._write_list(
            answers.watch_success(request_id, watcher_id, names, known_hash=known_hash), topics=len(names)
        )

    def _write_list(self, frame: bytes, *, topics: int) -> None:
        most = self._longest_answer_bytes
        if len(frame) > most:
            raise AnswerTooLarge(
                f"the names of {topics} topics make a frame of {len(frame)} bytes, and clients take {most}: use a"
                " narrower pattern, or more namespaces"
            )
        self._write(frame)

    def send_watch_update(
        self, watcher_id: int, *, added: frozenset[str], removed: frozenset[str], names: frozenset[str]
    ) -> None:
        """Send one or more WATCH_TOPIC_UPDATEs. `names` is the whole list after the change."""
        frame = answers.watch_update(watcher_id, added=added, removed=removed, topics=names)
        if len(frame) <= self._longest_answer_bytes or len(added) + len(removed) < 2:
            self._write(frame)
            return
        added_first, removed_first = _half(added), _half(removed)
        added_later, removed_later = added - added_first, removed - removed_first
        # Each update carries the hash of the list after that update.
        between = (names - added_later) | removed_later
        self.send_watch_update(watcher_id, added=added_first, removed=removed_first, names=between)
        self.send_watch_update(watcher_id, added=added_later, removed=removed_later, names=names)

    def send_producer_success(
        self,
        request_id: int,
        *,
        name: str,
        last_sequence_id: int = -1,
        schema_version: bytes = b"",
        topic_epoch: int | None = None,
        ready: bool = True,
    ) -> None:
        """Send PRODUCER_SUCCESS. If `ready` is False, a second answer must follow."""
        self._write(
            answers.producer_success(
                request_id,
                name=name,
                last_sequence_id=last_sequence_id,
                schema_version=schema_version,
                topic_epoch=topic_epoch,
                ready=ready,
            )
        )

    def send_receipts(self, producer_id: int, receipts: Iterable[answers.ReceiptFields]) -> None:
        """Send SEND_RECEIPTs. Clients close the connection if receipts are not in the order of the SENDs."""
        frames = answers.send_receipts(producer_id, receipts)
        self._out += frames
        self._out_bytes += sum(map(len, frames))

    def send_send_error(self, producer_id: int, sequence_id: int, code: ServerError, message: str) -> None:
        """Send SEND_ERROR. The C++ client closes the connection for every code except CHECKSUM_ERROR."""
        self._write(answers.send_error(producer_id, sequence_id, code, message))

    def send_close_producer(self, producer_id: int) -> None:
        """Send CLOSE_PRODUCER. Raises LocalProtocolError if the client is too old."""
        self._require_close_version()
        self._write(commands.close_producer(producer_id, request_id=NO_REQUEST))

    def send_close_consumer(self, consumer_id: int) -> None:
        """Send CLOSE_CONSUMER. Raises LocalProtocolError if the client is too old."""
        self._require_close_version()
        self._write(commands.close_consumer(consumer_id, request_id=NO_REQUEST))

    def _require_close_version(self) -> None:
        if self.protocol_version < _CLOSE_VERSION:
            raise LocalProtocolError(
                f"the client speaks version {self.protocol_version}: close its connection"
            )

    def send_message(
        self,
        consumer_id: int,
        *,
        ledger_id: int,
        entry_id: int,
        entry: bytes,
        partition: int = -1,
        redelivery_count: int = 0,
        ack_set: int | None = None,
        epoch: int | None = None,
    ) -> None:
        """Send MESSAGE. `ack_set` is None if all messages of the entry are unacked. `entry` includes its checksum."""
        head = answers.message_head(
            consumer_id, ledger_id, entry_id, partition, redelivery_count, ack_set, len(entry), epoch
        )
        self._out += (head, entry)
        self._out_bytes += len(head) + len(entry)

    def send_ack_response(
        self,
        consumer_id: int,
        request_id: int,
        *,
        code: ServerError | None = None,
        message: str | None = None,
    ) -> None:
        """Send ACK_RESPONSE. `code` is None if the ack was applied."""
        self._write(answers.ack_response(consumer_id, request_id=request_id, code=code, message=message))

    def send_last_message_id(self, request_id: int, *, last: MessageId, mark_delete: MessageId) -> None:
        """Send GET_LAST_MESSAGE_ID_RESPONSE. If the topic has no message, `last` has ledger -1 and entry -1."""
        self._write(answers.last_message_id(request_id, last=last, mark_delete=mark_delete))

    def send_active_consumer_change(self, consumer_id: int, *, is_active: bool) -> None:
        """Send ACTIVE_CONSUMER_CHANGE if the client knows the command."""
        if self.protocol_version >= _ACTIVE_CHANGE_VERSION:
            self._write(answers.active_consumer_change(consumer_id, is_active=is_active))

    def send_reached_end_of_topic(self, consumer_id: int) -> None:
        """Send REACHED_END_OF_TOPIC if the client knows the command."""
        if (
            self.client_version.startswith(_END_OF_TOPIC_CLIENTS)
            and self.protocol_version >= _END_OF_TOPIC_VERSION
        ):
            self._write(answers.reached_end_of_topic(consumer_id))

    def send_consumer_stats(
        self,
        request_id: int,
        *,
        consumer_name: str,
        type: SubType,  # noqa: A002 - the protocol's word
        address: str,
        connected_since: str,
        permits: int,
        unacked_messages: int,
        blocked: bool,
        backlog_entries: int,
        message_rate_out: float,
        bytes_rate_out: float,
        redeliver_rate: float,
        ack_rate: float,
    ) -> None:
        """Send CONSUMER_STATS_RESPONSE. Rates are per second."""
        self._write(
            answers.consumer_stats_response(
                request_id,
                consumer_name=consumer_name,
                type=type,
                address=address,
                connected_since=connected_since,
                permits=permits,
                unacked_messages=unacked_messages,
                blocked=blocked,
                backlog_entries=backlog_entries,
                message_rate_out=message_rate_out,
                bytes_rate_out=bytes_rate_out,
                redeliver_rate=redeliver_rate,
                ack_rate=ack_rate,
            )
        )

    def send_consumer_stats_failed(self, request_id: int, code: ServerError, message: str) -> None:
        """Send CONSUMER_STATS_RESPONSE with an error."""
        self._write(answers.consumer_stats_failed(request_id, code, message))


def _half(names: frozenset[str]) -> frozenset[str]:
    return frozenset(islice(names, (len(names) + 1) // 2))
