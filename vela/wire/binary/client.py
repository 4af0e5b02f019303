"""The client's end of Pulsar's binary protocol, without I/O. `ServerEngine` is its counterpart in the broker.

Bytes go in and replies come out. The builders in `commands` encode what a client sends. Only CONNECT and AUTH_RESPONSE
also have methods here, because they belong to the handshake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vela.wire.binary import commands
from vela.wire.binary.fields import name_of, parse_command
from vela.wire.binary.frames import Frame, FrameDecoder
from vela.wire.binary.handshake import PROTOCOL_VERSION, ConnectionState
from vela.wire.binary.plain_replies import plain_reply
from vela.wire.binary.replies import Connected, Refusal, Reply
from vela.wire.binary.reply_decoding import decode_reply
from vela.wire.entry import FRAME_PADDING_BYTES
from vela.wire.errors import LocalProtocolError, MalformedCommand, RemoteProtocolError, UnexpectedCommand
from vela.wire.pb.vela_pulsar_pb2 import BaseCommand

__all__ = ["DEFAULT_MAX_MESSAGE_BYTES", "ClientEngine"]

DEFAULT_MAX_MESSAGE_BYTES: Final = 5 * 1024 * 1024
"""The largest payload, if the broker does not announce a limit."""

_EVERY_FRAME: Final = 1 << 62  # more frames than any piece of data has
_EVERY_TYPE: Final = frozenset(BaseCommand.Type.values())
_ACCEPTS: Final[Mapping[ConnectionState, frozenset[int]]] = {
    ConnectionState.START: frozenset(),
    ConnectionState.CONNECTING: frozenset(
        {BaseCommand.CONNECTED, BaseCommand.AUTH_CHALLENGE, BaseCommand.ERROR}
    ),
    ConnectionState.CONNECTED: _EVERY_TYPE - {BaseCommand.CONNECTED},
    ConnectionState.FAILED: frozenset(),
}
"""The command types that each state accepts."""


class ClientEngine:
    """One connection.

    To drive it, send the bytes of `connect()`, then pass incoming bytes to `receive` and handle the replies in order.
    Before `state` is CONNECTED, send nothing else but the answers to AUTH_CHALLENGE. After a RemoteProtocolError,
    handle its `events` and then close. A `Refusal` of CONNECT, or one that answers no request, ends the connection: the
    state is FAILED from then on.
    """

    __slots__ = (
        "_accepts",
        "_decoder",
        "_state",
        "client_version",
        "max_message_bytes",
        "protocol_version",
        "server_version",
    )

    def __init__(self, *, client_version: str) -> None:
        self._decoder = FrameDecoder(DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES)
        self._enter(ConnectionState.START)
        self.client_version = client_version
        self.server_version = ""
        """The broker's version as free text, "" before CONNECTED."""
        self.protocol_version = 0
        """The lower of the two peers' versions, 0 before CONNECTED."""
        self.max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES
        """The largest payload that the broker takes and sends, as sent over the wire. Metadata comes on top of it."""

    @property
    def state(self) -> ConnectionState:
        """The state of the handshake."""
        return self._state

    def _enter(self, state: ConnectionState) -> None:
        self._state = state
        self._accepts = _ACCEPTS[state]

    def connect(
        self,
        *,
        auth_method: str | None = None,
        auth_data: bytes | None = None,
        proxy_to_broker_url: str | None = None,
    ) -> bytes:
        """Return CONNECT, the first frame. `proxy_to_broker_url`: host:port of the broker to reach through a proxy.

        Raises LocalProtocolError if it is called twice.
        """
        if self._state is not ConnectionState.START:
            raise LocalProtocolError(f"CONNECT is sent once: the connection is {self._state.value}")
        self._enter(ConnectionState.CONNECTING)
        return commands.connect(
            client_version=self.client_version,
            protocol_version=PROTOCOL_VERSION,
            auth_method=auth_method,
            auth_data=auth_data,
            proxy_to_broker_url=proxy_to_broker_url,
        )

    def auth_response(self, method: str, data: bytes) -> bytes:
        """Return the AUTH_RESPONSE to an AUTH_CHALLENGE, in the handshake or later."""
        return commands.auth_response(
            client_version=self.client_version,
            protocol_version=PROTOCOL_VERSION,
            auth_method=method,
            data=data,
        )

    def receive(self, data: bytes | bytearray | memoryview) -> list[Reply]:
        """Take bytes from the broker and return the replies that they complete, in order.

        Raises RemoteProtocolError (FrameTooLarge, MalformedFrame, MalformedCommand, UnexpectedCommand) with
        the replies before the violation in its `events`; the state is then FAILED. Raises LocalProtocolError
        when called in that state. Ignores commands that follow a `Refusal` that ends the connection.
        """
        if self._state is ConnectionState.FAILED:
            raise LocalProtocolError("the connection has failed: close it and pass it no more bytes")
        replies: list[Reply] = []
        failure: RemoteProtocolError | None = None
        while True:
            frames: list[Frame] = []
            # CONNECTED announces a limit for later frames, and such frames may be in the same bytes.
            most = 1 if self._state is ConnectionState.CONNECTING else _EVERY_FRAME
            try:
                self._decoder.feed_into(data, frames, most=most)
            except RemoteProtocolError as error:
                failure = error
            try:
                self._take(frames, replies)
            except RemoteProtocolError as error:
                failure = error
            if failure is not None or self.state is ConnectionState.FAILED or not self._decoder.has_uncut:
                break
            data = b""
        if failure is not None:
            self._enter(ConnectionState.FAILED)
            failure.events = tuple(replies)
            raise failure
        return replies

    def _take(self, frames: Sequence[Frame], replies: list[Reply]) -> None:
        """Append the frames' replies. Ignore what follows a reply that ends the connection."""
        for frame in frames:
            if self._state is ConnectionState.CONNECTED and (plain := plain_reply(frame)) is not None:
                replies.append(plain)
                continue
            command = parse_command(frame.command)
            if command.type not in self._accepts:
                self._refuse(command)
            reply = decode_reply(command, frame)
            replies.append(reply)
            if type(reply) is Connected or type(reply) is Refusal:
                self._advance(reply)
                if self._state is ConnectionState.FAILED:
                    return

    def _advance(self, reply: Connected | Refusal) -> None:
        if isinstance(reply, Refusal):
            if self._state is ConnectionState.CONNECTING or reply.request_id == commands.NO_REQUEST:
                self._enter(ConnectionState.FAILED)
            return
        self.server_version = reply.server_version
        self.protocol_version = min(PROTOCOL_VERSION, max(reply.protocol_version, 0))
        if reply.max_message_bytes is not None:
            self.max_message_bytes = reply.max_message_bytes
            self._decoder.max_frame_bytes = reply.max_message_bytes + FRAME_PADDING_BYTES
        self._enter(ConnectionState.CONNECTED)

    def _refuse(self, command: BaseCommand) -> None:
        # A missing or unknown type reads as the enum's first value.
        if not command.HasField("type"):
            raise MalformedCommand("the command's type is missing or unknown")
        raise UnexpectedCommand(
            f"{name_of(command.type)} must not be sent while the connection is {self._state.value}"
        )
