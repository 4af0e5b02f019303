"""Export matching messages as NDJSON or CSV, piece by piece."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from console.files import Form, line
from console.messages.asked import Asked
from console.messages.lanes import lanes_of
from console.messages.scan import EXPORT_BOUNDS, Bounds, Hit, Scan
from console.messages.values.columns import Column, values_of
from console.queries.topics.topic import TopicHead

__all__ = ["MOST_EXPORTED", "MOST_WRITTEN_BYTES", "export"]

MOST_EXPORTED: Final = 10_000
MOST_WRITTEN_BYTES: Final = 256 * 1024 * 1024

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
    """Return the pieces of a file with the matching messages.

    An empty piece comes about once a second, so that the caller can stop.
    Raises AskedInvalid if the search is invalid.
    """
    asked = replace(asked, limit=MOST_EXPORTED)
    scan = Scan(lanes_of(head, asked), asked, bounds)
    names = _METADATA + (_CONTENTS if with_contents else ())
    chosen = tuple(column for column in asked.columns if column.name not in names) if with_contents else ()
    return _pieces(scan, form=form, names=names, chosen=chosen)


def _pieces(scan: Scan, *, form: Form, names: tuple[str, ...], chosen: tuple[Column, ...]) -> Iterator[bytes]:
    if form == "csv":
        yield line({name: name for name in (*names, *(column.name for column in chosen))}, form)
    looked, written_bytes, is_full = scan.looked, 0, False
    for hit in scan.steps():
        if hit is None:
            yield b""
            continue
        document = _document(hit)
        row = line({name: document[name] for name in names} | _chosen(hit, chosen, form), form)
        yield row
        written_bytes += len(row)
        if is_full := written_bytes >= MOST_WRITTEN_BYTES:
            break
    stopped_by = "size" if is_full else looked.stopped_by
    end = {
        "stopped_by": stopped_by,
        "matched": looked.matched,
        "looked_at_entries": looked.entries,
        "after": None if looked.mark is None or stopped_by in ("end", "cursor") else str(looked.mark),
    }
    if form == "ndjson":
        yield line({"end": end}, form)
    else:
        yield line({"end": "# " + ", ".join(f"{name} {value}" for name, value in end.items())}, form)


def _chosen(hit: Hit, columns: tuple[Column, ...], form: Form) -> dict[str, Any]:
    message = hit.message or hit.opened.outer
    found = {}
    if columns and message is not None:
        found = values_of(columns, message, has_payload=hit.message is not None)
    if form == "csv":
        return {column.name: _cell(found.get(column.name)) for column in columns}
    return {"columns": found} if columns else {}


def _cell(value: object) -> object:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _document(hit: Hit) -> dict[str, Any]:
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
