"""Format messages for a terminal, a file or a pipe."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from vela.cli.text.output import printable

if TYPE_CHECKING:
    from vela.message import Message, MessageId

__all__ = ["FORMATS", "id_text", "message_json", "printer"]

FORMATS: Final = ("text", "json", "hex", "raw")


def printer(name: str, *, is_terminal: bool) -> Callable[[Message], bytes]:
    """Return a function that writes a message: `text`, `json` and `hex` write a line, `raw` the payload's bytes."""
    match name:
        case "json":
            return _json_line
        case "hex":
            return lambda message: message.data().hex().encode() + b"\n"
        case "raw":
            return lambda message: message.data()
        case _:
            return _safe_text if is_terminal else lambda message: message.data() + b"\n"


def _json_line(message: Message) -> bytes:
    line = json.dumps(message_json(message), ensure_ascii=False)
    # An ordering key that is not UTF-8 has lone surrogates, which JSON can only write as escapes.
    return line.encode(errors="backslashreplace") + b"\n"


def message_json(message: Message) -> dict[str, Any]:
    """Return a message as an object. If the payload is not UTF-8, `payload` is null and `payload_base64` is set."""
    data = message.data()
    text, encoded = _text_or_base64(data)
    return {
        "id": id_text(message.message_id()),
        "topic": message.topic_name(),
        "key": message.partition_key() or None,
        "ordering_key": message.ordering_key() or None,
        "properties": dict(message.properties()),
        "publish_ms": message.publish_timestamp(),
        "event_ms": message.event_timestamp(),
        "producer": message.producer_name(),
        "sequence_id": message.sequence_id(),
        "redelivery_count": message.redelivery_count(),
        "size_bytes": len(data),
        "payload": text,
        "payload_base64": encoded,
    }


def id_text(message_id: MessageId) -> str:
    """Return an id as the console prints it, and as `vela reset --id` and `vela skip --id` take it."""
    base = f"{message_id.ledger_id()}:{message_id.entry_id()}"
    if message_id.batch_index() < 0:
        return base
    return f"{base}:{message_id.partition()}:{message_id.batch_index()}"


def _text_or_base64(data: bytes) -> tuple[str | None, str | None]:
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()


def _safe_text(message: Message) -> bytes:
    """Return the payload as text without characters that control a terminal."""
    return printable(message.data().decode(errors="backslashreplace")).encode() + b"\n"
