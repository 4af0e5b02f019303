"""Decode the frames that a reader sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from broker.doors.websocket.json.frames import Frame, array_items, guarded_decode

__all__ = ["ReaderFrame", "decode_reader_frame"]


class _Fields(msgspec.Struct, gc=False):
    type: Any = None


_decode = msgspec.json.Decoder(_Fields | list[_Fields]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderFrame:
    """The result of decoding a reader's frame."""

    processed: int  # Messages that the client reports as processed
    end_of_topic_requests: int


def decode_reader_frame(frame: Frame) -> ReaderFrame:
    """Decode an object or an array of objects. Raises InvalidJson.

    Every object except `isEndOfTopic` reports one message as processed.
    """
    fields = guarded_decode(_decode, frame)
    items = [fields] if type(fields) is _Fields else array_items(fields)
    requests = sum(item.type == "isEndOfTopic" for item in items)
    return ReaderFrame(processed=len(items) - requests, end_of_topic_requests=requests)
