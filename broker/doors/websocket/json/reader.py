"""A reader's frames to the broker. In the other direction, readers get the same frames as consumers."""

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
    """The reports and requests in one frame of a reader."""

    processed: int  # messages processed; this makes room in the window and acks nothing
    end_of_topic_requests: int  # answer each with `end_of_topic_frame`


def decode_reader_frame(frame: Frame) -> ReaderFrame:
    """Decode a reader's frame. A JSON object, even `{}`, reports one message as processed, unless it is `isEndOfTopic`.

    The ids in the frame are not read. Extension: an array of such objects. Raises InvalidJson for anything else.
    """
    fields = guarded_decode(_decode, frame)
    items = [fields] if type(fields) is _Fields else array_items(fields)
    requests = sum(item.type == "isEndOfTopic" for item in items)
    return ReaderFrame(processed=len(items) - requests, end_of_topic_requests=requests)
