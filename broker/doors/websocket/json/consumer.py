"""Frames of a consumer: commands from the client, and messages to the client."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from broker.doors.times import format_time
from broker.doors.websocket.json.errors import InvalidCommand
from broker.doors.websocket.json.frames import Frame, array_items, guarded_decode
from vela.wire.compression import Compression
from vela.wire.errors import InvalidMessageId
from vela.wire.message_id import MessageId

if TYPE_CHECKING:
    from vela.wire.entry import EncryptedEntry, Message

__all__ = [
    "Acknowledge",
    "ConsumerCommand",
    "IsEndOfTopic",
    "NegativeAcknowledge",
    "Permit",
    "ReconsumeLater",
    "Unsubscribe",
    "decode_commands",
    "encrypted_fragment",
    "end_of_topic_frame",
    "push_fragment",
    "push_frame",
]

_LONGEST_DELAY_MS: Final = 100 * 365 * 86_400_000
_MOST_CHARACTERS: Final = 64 * 1024
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class Acknowledge(msgspec.Struct, frozen=True, gc=False):
    """Acknowledge one message. If `cumulative` is set, also acknowledge all earlier messages."""

    message_id: MessageId
    cumulative: bool


class NegativeAcknowledge(msgspec.Struct, frozen=True, gc=False):
    """Deliver the message again after the delay in the consumer's options."""

    message_id: MessageId


class Permit(msgspec.Struct, frozen=True, gc=False):
    """Grant permits in pull mode. In push mode, the command has no effect."""

    messages: int


class ReconsumeLater(msgspec.Struct, frozen=True, gc=False):
    """Write a retry letter or a dead letter, then ack the message."""

    message_id: MessageId
    delay_ms: int
    properties: dict[str, str]


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    """Remove the subscription. The client gets no answer."""


class IsEndOfTopic(msgspec.Struct, frozen=True, gc=False):
    """Tell the client whether the topic has ended."""


ConsumerCommand: TypeAlias = (
    Acknowledge | NegativeAcknowledge | ReconsumeLater | Permit | Unsubscribe | IsEndOfTopic
)


class _Fields(msgspec.Struct, gc=False):
    type: str | None = None
    messageId: str | None = None  # noqa: N815
    permitMessages: _Int32 | None = None  # noqa: N815
    # Each of the next three fields may hold any value in a command that does not use the field.
    ackType: Any = None  # noqa: N815
    delayMillis: Any = None  # noqa: N815
    properties: Any = None


class _Push(msgspec.Struct, gc=False):
    payload: bytes
    properties: dict[str, str]
    publishTime: str  # noqa: N815
    eventTime: str | UnsetType = UNSET  # noqa: N815
    key: str | UnsetType = UNSET


class _Key(msgspec.Struct, gc=False):
    keyValue: bytes  # noqa: N815
    metadata: dict[str, str]


class _EncryptionContext(msgspec.Struct, gc=False):
    keys: dict[str, _Key]
    param: bytes
    algorithm: str
    compressionType: str  # noqa: N815
    uncompressedMessageSize: int  # noqa: N815
    batchSize: int | UnsetType = UNSET  # noqa: N815
    encrypted: bool = True


class _EncryptedPush(_Push, gc=False):
    encryptionContext: _EncryptionContext | UnsetType = UNSET  # noqa: N815


_decode = msgspec.json.Decoder(_Fields | list[_Fields]).decode
_encode = msgspec.json.Encoder().encode

_NONE_KNOWN: Final[Mapping[str, MessageId]] = MappingProxyType({})
_UNSUBSCRIBE = Unsubscribe()
_IS_END_OF_TOPIC = IsEndOfTopic()
_END_OF_TOPIC = {True: b'{"endOfTopic":true}', False: b'{"endOfTopic":false}'}


def decode_commands(frame: Frame, known: Mapping[str, MessageId] = _NONE_KNOWN) -> list[ConsumerCommand]:
    """Return the commands of a text frame in order.

    `known` maps base64 texts to parsed ids. If a command's `type` is absent or unknown, the command acknowledges the
    message, as in Pulsar. Raises InvalidJson if the frame has the wrong shape, and InvalidCommand if a command has a
    bad value.
    """
    fields = guarded_decode(_decode, frame)
    if type(fields) is _Fields:
        return [_command(fields, known)]
    return [_command(item, known) for item in array_items(fields)]


def _command(fields: _Fields, known: Mapping[str, MessageId]) -> ConsumerCommand:
    match fields.type:
        case None:
            return Acknowledge(_message_id(fields, known), False)
        case "acknowledge":
            return Acknowledge(_message_id(fields, known), _is_cumulative(fields.ackType))
        case "negativeAcknowledge":
            return NegativeAcknowledge(_message_id(fields, known))
        case "reconsumeLater":
            return ReconsumeLater(
                _message_id(fields, known), _delay_ms(fields.delayMillis), _properties(fields.properties)
            )
        case "permit":
            if fields.permitMessages is None:
                raise InvalidCommand("permit needs permitMessages, a whole number above 0")
            return Permit(fields.permitMessages)
        case "unsubscribe":
            return _UNSUBSCRIBE
        case "isEndOfTopic":
            return _IS_END_OF_TOPIC
        case _:
            return Acknowledge(_message_id(fields, known), False)


def _message_id(fields: _Fields, known: Mapping[str, MessageId]) -> MessageId:
    text = fields.messageId
    if text is None:
        raise InvalidCommand("messageId is missing; send back the id that the message came with")
    message_id = known.get(text)
    if message_id is not None:
        return message_id
    try:
        return MessageId.from_base64(text)
    except InvalidMessageId as error:
        raise InvalidCommand(f"messageId: {error}") from None


def _is_cumulative(ack_type: object) -> bool:
    match ack_type:
        case None | "individual":
            return False
        case "cumulative":
            return True
    raise InvalidCommand("ackType is individual or cumulative")


def _delay_ms(value: object) -> int:
    if type(value) is int and 0 <= value < _LONGEST_DELAY_MS:
        return value
    raise InvalidCommand("reconsumeLater needs delayMillis, a whole number of milliseconds up to 100 years")


def _properties(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        if sum(len(name) + len(text) for name, text in value.items()) > _MOST_CHARACTERS:
            raise InvalidCommand(
                f"the properties of reconsumeLater have more than {_MOST_CHARACTERS} characters"
            )
        return value
    raise InvalidCommand("the properties of reconsumeLater must be an object whose values are strings")


def push_fragment(message: Message) -> bytes:
    """Return the part of a push frame that is the same for every delivery of the message."""
    return _fragment(
        _Push(message.payload, message.properties, format_time(message.publish_time_ms)), message
    )


def encrypted_fragment(entry: EncryptedEntry) -> bytes:
    """Return the fragment of an encrypted entry."""
    message = entry.message
    push = _EncryptedPush(message.payload, message.properties, format_time(message.publish_time_ms))
    push.encryptionContext = _EncryptionContext(
        keys={key.name: _Key(key.value, key.metadata) for key in entry.keys},
        param=entry.param,
        algorithm=entry.algorithm,
        compressionType=_codec_name(entry.compression),
        uncompressedMessageSize=entry.uncompressed_size,
        batchSize=entry.batch_size or UNSET,
    )
    return _fragment(push, message)


def _codec_name(codec: int) -> str:
    try:
        return Compression(codec).name
    except ValueError:
        return str(codec)


def _fragment(push: _Push, message: Message) -> bytes:
    if message.event_time_ms:
        push.eventTime = format_time(message.event_time_ms)
    if message.key is not None:
        push.key = message.key
    return _encode(push)[1:]


def push_frame(message_id_base64: str, fragment: bytes, redelivery_count: int) -> bytes:
    """Return the frame that delivers a message."""
    return b'{"messageId":"%b","redeliveryCount":%d,%b' % (
        message_id_base64.encode(),
        redelivery_count,
        fragment,
    )


def end_of_topic_frame(ended: bool) -> bytes:
    """Return the answer to `isEndOfTopic`."""
    return _END_OF_TOPIC[ended]
