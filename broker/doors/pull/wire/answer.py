"""Encode the answers to pull requests."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from vela.wire.pull.codes import PullCode
from vela.wire.pull.tags import TAG_PROPERTY

__all__ = ["AnsweredMessage", "encode_answer"]


class AnsweredMessage(NamedTuple):
    """One message of an answer."""

    offset: int
    message_id: str  # A MessageId as text
    key: str | None
    properties: dict[str, str]
    publish_time_ms: int  # By the producer's clock
    event_time_ms: int  # 0 if the message has no event time
    payload: bytes


_encode = msgspec.json.Encoder().encode


def encode_answer(
    code: PullCode,
    *,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    messages: Sequence[AnsweredMessage] = (),
    unreadable_messages: int = 0,
) -> bytes:
    """Return the answer as JSON."""
    return _encode(
        {
            "code": code.name,
            "next_begin_offset": next_begin_offset,
            "min_offset": min_offset,
            "max_offset": max_offset,
            "unreadable_messages": unreadable_messages,
            "messages": [_message(each) for each in messages],
        }
    )


def _message(message: AnsweredMessage) -> dict[str, object]:
    answer: dict[str, object] = {
        "offset": message.offset,
        "message_id": message.message_id,
        "properties": message.properties,
        "publish_time_ms": message.publish_time_ms,
        "payload": base64.b64encode(message.payload).decode("ascii"),
    }
    if message.key is not None:
        answer["key"] = message.key
    if message.event_time_ms:
        answer["event_time_ms"] = message.event_time_ms
    tag = message.properties.get(TAG_PROPERTY)
    if tag is not None:
        answer["tag"] = tag
    return answer
