"""JSON messages for the WebSocket API, made before a run; only a number changes in them."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence

from bench.load.peers.websocket import text_frame

__all__ = [
    "MessageFrames",
    "ack_frame",
    "acks_frame",
    "consumer_path",
    "key_of",
    "message_id_of",
    "producer_path",
]

_KEY_DIGITS = 10
_KEY = b'"key":"'
_MESSAGE_ID = b'"messageId":"'


class MessageFrames:
    """Frames of one random payload whose key is the message's number."""

    def __init__(self, payload_bytes: int) -> None:
        payload = base64.b64encode(os.urandom(payload_bytes))
        whole = text_frame(b'{"payload":"%b",%b%0*d"}' % (payload, _KEY, _KEY_DIGITS, 0))
        at = whole.rindex(_KEY) + len(_KEY)
        self._head, self._tail = whole[:at], whole[at + _KEY_DIGITS :]

    def frame(self, number: int) -> bytes:
        """Return the frame of message `number`."""
        return b"%b%0*d%b" % (self._head, _KEY_DIGITS, number, self._tail)


def key_of(push: bytes) -> int:
    """Return the number of a delivered message. Raises ValueError when it has none."""
    at = push.rindex(_KEY) + len(_KEY)
    return int(push[at : at + _KEY_DIGITS])


def message_id_of(frame: bytes) -> bytes:
    """Return the message id of a delivery or a receipt, in base64."""
    at = frame.index(_MESSAGE_ID) + len(_MESSAGE_ID)
    return frame[at : frame.index(b'"', at)]


def ack_frame(message_id: bytes) -> bytes:
    """Return the frame with which a consumer acks one message."""
    return text_frame(b'{"messageId":"%b"}' % message_id)


def acks_frame(message_ids: Sequence[bytes]) -> bytes:
    """Return the frame with which a consumer acks several messages, at most 1,000, in one array."""
    return text_frame(b'[{"messageId":"%b"}]' % b'"},{"messageId":"'.join(message_ids))


def producer_path(topic: str) -> str:
    """Return the path at which a producer of persistent://tenant/namespace/name connects."""
    return f"/ws/v2/producer/{topic.replace('://', '/')}"


def consumer_path(topic: str, subscription: str, *, type_: str = "Exclusive") -> str:
    """Return the path at which a consumer connects that reads from the topic's beginning."""
    return (
        f"/ws/v2/consumer/{topic.replace('://', '/')}/{subscription}"
        f"?subscriptionType={type_}&subscriptionInitialPosition=Earliest&receiverQueueSize=1000"
    )
