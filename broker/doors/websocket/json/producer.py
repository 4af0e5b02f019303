"""Frames of a producer: messages from the client, and acks to the client.

A frame may hold an array of messages. Each message succeeds or fails on its own.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from broker.doors.times import parse_time
from broker.doors.websocket.json.encryption import MessageEncryption, message_encryption
from broker.doors.websocket.json.errors import InvalidJson, WebSocketError
from broker.doors.websocket.json.frames import DECODE_ERRORS, Frame, array_items

__all__ = ["ArrayAcks", "DecodedMessage", "ProducerMessage", "SendError", "ack_frame", "decode_frame"]

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_MAX_TIME_MS = 2**63 - 1


class ProducerMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message to publish."""

    payload: bytes
    properties: dict[str, str]
    key: str | None
    event_time_ms: int  # 0 if the client sent no time
    deliver_at_ms: int | None  # None for immediate delivery
    context: str | None  # The ack repeats this text
    encryption: MessageEncryption | None = None


class SendError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The refusal of a message. The socket stays open."""

    error: WebSocketError
    message: str
    context: str | None = None

    def to_frame(self) -> bytes:
        """Return the refusal as JSON."""
        return _encode(
            _ErrorAck(
                result=f"send-error:{int(self.error)}",
                errorMsg=self.message.encode("utf-8", "replace").decode(),
                context=UNSET if self.context is None else self.context,
            )
        )


DecodedMessage: TypeAlias = ProducerMessage | SendError


class _Fields(msgspec.Struct, gc=False):
    # Unknown fields are ignored, as in Pulsar.
    payload: bytes | None = None
    properties: dict[str, str] | None = None
    context: str | None = None
    key: str | None = None
    replicationClusters: list[str] | None = None  # noqa: N815
    eventTime: str | None = None  # noqa: N815
    deliverAt: _Int64 | None = None  # noqa: N815
    deliverAfterMs: _Int64 | None = None  # noqa: N815
    encryptionParam: str | None = None  # noqa: N815
    compressionType: str | None = None  # noqa: N815
    uncompressedMessageSize: _Int64 | None = None  # noqa: N815


class _FieldsBadPayload(_Fields, gc=False):
    # This class accepts a payload that is not base64, so that the refusal can repeat the context.
    payload: str | None = None  # type: ignore[assignment]


class _ErrorAck(msgspec.Struct, gc=False):
    result: str
    errorMsg: str  # noqa: N815
    context: str | UnsetType = UNSET
    errorCode: int = 0  # noqa: N815
    schemaVersion: int = 0  # noqa: N815


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Fields | list[_Fields]).decode
_decode_one = msgspec.json.Decoder(_Fields).decode
_decode_bad_payload = msgspec.json.Decoder(_FieldsBadPayload).decode
_decode_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_frame(
    frame: Frame, now_ms: int, *, is_encrypted: bool = False
) -> DecodedMessage | list[DecodedMessage]:
    """Return the message of a text frame, or a list of messages if the frame is an array. Never raises.

    A refused message or frame becomes a SendError. `is_encrypted` says whether the WebSocket's URL has the parameter
    encryptionKeys.
    """
    try:
        fields = _decode(frame)
    except DECODE_ERRORS as error:
        return _refused(frame, now_ms, error, is_encrypted)
    if type(fields) is _Fields:
        return _message(fields, now_ms, is_encrypted)
    try:
        return [_message(item, now_ms, is_encrypted) for item in array_items(fields)]
    except InvalidJson as error:
        return _not_json(error)


def _message(fields: _Fields, now_ms: int, is_encrypted: bool) -> DecodedMessage:
    payload = fields.payload
    if payload is None:
        return _bad_field("payload is missing; send standard base64, or an empty text", fields)
    event_time_ms, deliver_at_ms = 0, None
    if fields.eventTime is not None:
        try:
            event_time_ms = parse_time(fields.eventTime)
        except ValueError as error:
            return _bad_field(f"eventTime: {error}", fields)
    if fields.deliverAfterMs is not None and fields.deliverAfterMs > 0:
        deliver_at_ms = now_ms + fields.deliverAfterMs
        if deliver_at_ms > _MAX_TIME_MS:
            return _bad_field("deliverAfterMs reaches past the last time a message can carry", fields)
    elif fields.deliverAt is not None and fields.deliverAt > 0:
        deliver_at_ms = fields.deliverAt
    encryption = None
    if is_encrypted:
        try:
            encryption = message_encryption(
                fields.encryptionParam, fields.compressionType, fields.uncompressedMessageSize
            )
        except ValueError as error:
            return _bad_field(str(error), fields)
    return ProducerMessage(
        payload=payload,
        properties=fields.properties or {},
        key=fields.key,
        event_time_ms=event_time_ms,
        deliver_at_ms=deliver_at_ms,
        context=fields.context,
        encryption=encryption,
    )


def _refused(
    frame: Frame, now_ms: int, error: Exception, is_encrypted: bool
) -> DecodedMessage | list[DecodedMessage]:
    try:
        items = array_items(_decode_raw_items(frame))
    except DECODE_ERRORS:
        return _refused_one(frame, error)
    except InvalidJson as limit:
        return _not_json(limit)
    return [_decode_item(item, now_ms, is_encrypted) for item in items]


def _decode_item(item: msgspec.Raw, now_ms: int, is_encrypted: bool) -> DecodedMessage:
    try:
        return _message(_decode_one(item), now_ms, is_encrypted)
    except DECODE_ERRORS as error:
        return _refused_one(bytes(item), error)


def _refused_one(frame: Frame, error: Exception) -> SendError:
    try:
        fields = _decode_bad_payload(frame)
    except DECODE_ERRORS:
        return _not_json(error)
    return _bad_field("payload is not standard base64 with padding", fields)


def _not_json(error: Exception) -> SendError:
    return SendError(error=WebSocketError.FAILED_TO_DESERIALIZE_FROM_JSON, message=str(error))


def _bad_field(message: str, fields: _Fields) -> SendError:
    return SendError(error=WebSocketError.PAYLOAD_ENCODING_ERROR, message=message, context=fields.context)


def ack_frame(message_id_base64: str, context: str | None) -> bytes:
    """Return the ack of a message as JSON."""
    if context is None:
        return (
            b'{"result":"ok","messageId":"%b","errorCode":0,"schemaVersion":0}' % message_id_base64.encode()
        )
    return b'{"result":"ok","messageId":"%b","context":%b,"errorCode":0,"schemaVersion":0}' % (
        message_id_base64.encode(),
        _encode(context),
    )


class ArrayAcks:
    """Collects the answers to one array frame."""

    __slots__ = ("_answers", "_waiting")

    def __init__(self, messages: int) -> None:
        self._answers: list[bytes] = [b""] * messages
        self._waiting = messages

    def settle(self, index: int, answer: bytes) -> bytes | None:
        """Record the answer to an item. After the last answer, return all answers as one frame.

        If an item already has an answer, do nothing.
        """
        if self._answers[index]:
            return None
        self._answers[index] = answer
        self._waiting -= 1
        return b"[%b]" % b",".join(self._answers) if not self._waiting else None
