"""A pull as the client writes it, and its answer as the client reads it.

This module uses Python's own json, because the client does not depend on msgspec.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from vela.wire.errors import InvalidMessageId, RemoteProtocolError
from vela.wire.message_id import MessageId
from vela.wire.pull.codes import PullCode

__all__ = ["ReadAnswer", "ReadMessage", "decode_answer", "pull_query", "topic_path"]


class ReadMessage(NamedTuple):
    """One message of an answer."""

    offset: int  # in its queue
    message_id: MessageId
    key: str | None
    tag: str | None
    properties: dict[str, str]
    publish_time_ms: int  # the producer's clock
    event_time_ms: int  # 0 = none; below 0 = before 1970
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """The answer to a pull. The offsets of `messages` ascend, and all are before `next_begin_offset`."""

    code: PullCode
    next_begin_offset: int  # where to pull next
    min_offset: int  # of the oldest message that the queue keeps
    max_offset: int  # of the next message to be stored
    unreadable_messages: int  # passed over by the broker: corrupt, encrypted, parts of a large message
    messages: tuple[ReadMessage, ...]


def topic_path(topic: str) -> str:
    """Return "tenant/namespace/topic", percent-encoded, for persistent://tenant/namespace/topic."""
    return "/".join(quote(piece, safe="") for piece in topic.partition("://")[2].split("/", 2))


def pull_query(
    *,
    offset: int,
    queue: int = 0,
    max_messages: int = 32,
    tags: str = "*",
    property_filter: str = "",
    hold_ms: int = 0,
) -> str:
    """Return the percent-encoded query of a pull. With `hold_ms` 0 the broker answers without waiting for messages."""
    parameters: dict[str, str | int] = {"offset": offset, "queue": queue, "max_messages": max_messages}
    if tags not in ("", "*"):
        parameters["tags"] = tags
    if property_filter:
        parameters["filter"] = property_filter
    if hold_ms:
        parameters["suspend"] = "true"
        parameters["suspend_timeout_ms"] = hold_ms
    return urlencode(parameters)


def decode_answer(body: bytes, *, offset: int) -> ReadAnswer:
    """Read the answer to a pull from `offset`. Raises RemoteProtocolError if it is not a broker's answer."""
    try:
        fields = json.loads(body)
        answer = ReadAnswer(
            code=PullCode[fields["code"]],
            next_begin_offset=_number(fields, "next_begin_offset"),
            min_offset=_number(fields, "min_offset"),
            max_offset=_number(fields, "max_offset"),
            unreadable_messages=_number(fields, "unreadable_messages"),
            messages=tuple(_message(each) for each in fields["messages"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RemoteProtocolError(f"not an answer to a pull: {error!r}: {body[:100]!r}") from None
    before = offset - 1
    for message in answer.messages:
        if not before < message.offset < answer.next_begin_offset:
            raise RemoteProtocolError(
                f"a pull from {offset} was answered with offset {message.offset} after {before}, "
                f"and with next_begin_offset {answer.next_begin_offset}"
            )
        before = message.offset
    if answer.code is not PullCode.PULL_OFFSET_MOVED and answer.next_begin_offset < offset:
        raise RemoteProtocolError(f"a pull from {offset} was told to continue at {answer.next_begin_offset}")
    if (answer.code is PullCode.SUCCESS) != bool(answer.messages):
        raise RemoteProtocolError(
            f"a pull was answered {answer.code.name} with {len(answer.messages)} messages"
        )
    return answer


def _message(fields: Mapping[str, Any]) -> ReadMessage:
    properties = fields["properties"]
    if not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("a property is not text")
    try:
        payload = base64.b64decode(fields["payload"], validate=True)
        message_id = MessageId.parse(fields["message_id"])
    except (binascii.Error, InvalidMessageId) as error:
        raise ValueError(str(error)) from None
    return ReadMessage(
        _number(fields, "offset"),
        message_id,
        _text(fields, "key"),
        _text(fields, "tag"),
        properties,
        _time(fields, "publish_time_ms"),
        _time(fields, "event_time_ms") if "event_time_ms" in fields else 0,
        payload,
    )


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = _time(fields, name)
    if value < 0:
        raise ValueError(f"{name} is {value!r}")
    return value


def _time(fields: Mapping[str, Any], name: str) -> int:
    """Return a whole number. It may be below 0, because a producer may send any time."""
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}")
    return value
