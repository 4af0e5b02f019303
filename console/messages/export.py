"""What matches as NDJSON or CSV, made while it is sent: a search of any length needs little memory."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal

from console.messages.asked import Asked
from console.messages.lanes import lanes_of
from console.messages.scan import EXPORT_BOUNDS, Bounds, Hit, Scan
from console.queries.topic import TopicHead

__all__ = ["MOST_EXPORTED", "MOST_WRITTEN_BYTES", "Form", "export"]

MOST_EXPORTED: Final = 10_000  # messages
MOST_WRITTEN_BYTES: Final = 256 * 1024 * 1024  # what a slow client has not read yet waits in memory
Form = Literal["ndjson", "csv"]

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_METADATA: Final = (
    "id",
    "topic",
    "append_ms",
    "publish_ms",
    "deliver_at_ms",
    "producer",
    "size_bytes",
    "trouble",
)
_CONTENTS: Final = (
    "key",
    "key_is_base64",
    "ordering_key",
    "properties",
    "event_ms",
    "sequence_id",
    "payload",
    "payload_base64",
)


def export(
    head: TopicHead, asked: Asked, *, form: Form, with_contents: bool, bounds: Bounds = EXPORT_BOUNDS
) -> Iterator[bytes]:
    """Return the pieces of a file with what matches, at most 10,000 messages or 256 MiB.

    The last line says why it ends. A piece is empty about once a second, so that the caller can stop in between.
    Without `with_contents` keys, properties and payloads are left out. Raises AskedInvalid before the first piece.
    """
    asked = replace(asked, limit=MOST_EXPORTED)
    scan = Scan(lanes_of(head, asked), asked, bounds)
    return _pieces(scan, form=form, columns=_METADATA + (_CONTENTS if with_contents else ()))


def _pieces(scan: Scan, *, form: Form, columns: tuple[str, ...]) -> Iterator[bytes]:
    write: Callable[[dict[str, Any]], bytes] = _ndjson if form == "ndjson" else _csv
    if form == "csv":
        yield _csv(dict(zip(columns, columns, strict=True)))
    looked, written_bytes, is_full = scan.looked, 0, False
    for hit in scan.steps():
        if hit is None:
            yield b""
            continue
        document = _document(hit)
        line = write({name: document[name] for name in columns})
        yield line
        written_bytes += len(line)
        if is_full := written_bytes >= MOST_WRITTEN_BYTES:
            break
    stopped_by = "size" if is_full else looked.stopped_by
    end = {
        "stopped_by": stopped_by,
        "matched": looked.matched,
        "looked_at_entries": looked.entries,
        "after": None if looked.mark is None or stopped_by == "end" else str(looked.mark),
    }
    if form == "ndjson":
        yield _ndjson({"end": end})
    else:
        yield _csv({"end": "# " + ", ".join(f"{name} {value}" for name, value in end.items())})


def _document(hit: Hit) -> dict[str, Any]:
    """Return all members of one message. `payload` is text, or null and `payload_base64` has the bytes."""
    stored, message = hit.opened.stored, hit.message or hit.opened.outer
    payload = None if hit.message is None else hit.message.payload
    text = None if payload is None else _text(payload)
    return {
        "id": str(hit.spot),
        "topic": hit.lane.topic_name,
        "append_ms": stored.append_ms,
        "publish_ms": 0 if hit.opened.header is None else hit.opened.header.publish_time_ms,
        "deliver_at_ms": stored.deliver_at_ms,
        "producer": "" if hit.opened.header is None else hit.opened.header.producer_name,
        "size_bytes": stored.size_bytes if payload is None else len(payload),
        "trouble": hit.opened.why,
        "key": None if message is None else message.key,
        "key_is_base64": message is not None and message.key_b64,
        "ordering_key": None
        if message is None or message.ordering_key is None
        else base64.b64encode(message.ordering_key).decode(),
        "properties": {} if message is None else message.properties,
        "event_ms": 0 if message is None else message.event_time_ms,
        "sequence_id": None if message is None else message.sequence_id,
        "payload": text,
        "payload_base64": None if payload is None or text is not None else base64.b64encode(payload).decode(),
    }


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _ndjson(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _csv(document: dict[str, Any]) -> bytes:
    """Return one row. A text that a spreadsheet would run as a formula gets an apostrophe in front."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_cell(value) for value in document.values()])
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False) if value else ""
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
