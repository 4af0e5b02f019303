"""Find messages or show one message, without consuming anything."""

from __future__ import annotations

import base64
import codecs
from dataclasses import asdict
from typing import Annotated, Any, Literal

from ninja import Path, Query, Router
from pydantic import BaseModel, Field

from broker.environment import Between
from console.api.access import SEES_PAYLOADS, AuthorizedRequest
from console.api.answers import FoundMessages, OneMessage
from console.api.app import read
from console.api.found import found_head, found_message
from console.api.parameters import TopicPath
from console.api.problems import Problem
from console.api.topics.topics import TOPIC
from console.messages.asked import LIMIT, MOST_ROWS, AskedInvalid, Start
from console.messages.browse import browse
from console.messages.form import asked_of
from console.messages.message import body_of, states_of
from console.messages.peek import peeked, peeked_whole
from console.messages.states import MessageState
from console.messages.values.columns import MOST_COLUMNS, ColumnInvalid, parse_columns
from console.messages.values.json_path import Operator

__all__ = ["router"]

_MOST_PARTITION = 1_000_000
router = Router(auth=SEES_PAYLOADS)


class Search(BaseModel):
    """Filters for messages. A message must pass all filters."""

    start: Start = "newest"
    at: Annotated[str, Field(description="an ISO 8601 time, or a position ledger:entry[:index]")] = ""
    order: Annotated[
        Literal["older", "newer"] | None,
        Field(description="by default older if start is newest, else newer"),
    ] = None
    partition: Annotated[int | None, Between(0, _MOST_PARTITION)] = None
    sub: Annotated[str, Field(description="the subscription whose state to show")] = ""
    key: Annotated[str, Field(description="the whole key")] = ""
    prop: Annotated[str, Field(description="name=value, or name for any value")] = ""
    path: Annotated[str, Field(description="into a JSON payload, such as order.items[0].sku")] = ""
    op: Operator | None = None
    value: Annotated[str, Field(description="JSON or text")] = ""
    text: Annotated[str, Field(description="somewhere in the payload")] = ""
    column: Annotated[
        list[str],
        Field(
            description="$.order.id for a value in JSON, property:region, or key; give it once for each column, at most"
            f" {MOST_COLUMNS} times"
        ),
    ] = []
    limit: Annotated[int, Between(1, MOST_ROWS)] = LIMIT
    after: Annotated[str, Field(description="the next_after of the previous page")] = ""


@read(router, f"{TOPIC}/messages", response=FoundMessages)
def find_messages(request: AuthorizedRequest, topic: Path[TopicPath], asked: Query[Search]) -> dict[str, Any]:
    """Find messages by position, time, key, property, JSON value or text.

    A search stops after 20,000 opened entries, 64 MiB or about a second. Pass next_after to continue the search.
    """
    try:
        given = asked.model_dump() | {"column": parse_columns(asked.column)}
        page = browse(found_head(topic.full_name), asked_of(given))
    except AskedInvalid as error:
        raise Problem(400, "BadQuery", f"{error.field}: {error}") from error
    except ColumnInvalid as error:
        raise Problem(400, "BadQuery", f"column: {error}") from error
    columns = [column.name for column in page.columns]
    looked = page.looked
    is_whole = looked.stopped_by in ("end", "cursor") or looked.mark is None
    return {
        "messages": [
            asdict(row.message)
            | {
                "message_id": row.message.message_id,
                "topic": row.topic_name,
                "partition": row.partition,
                "state": None if row.state is None else _state(asked.sub, row.state),
                "columns": dict.fromkeys(columns) | dict(zip(columns, row.message.cells, strict=False)),
            }
            for row in page.rows
        ],
        "looked_at": {
            "entries": looked.entries,
            "stored_entries": page.stored,
            "opened_entries": looked.opened,
            "bytes": looked.bytes,
            "matched": looked.matched,
            "by_key_hash": page.is_narrowed,
            "stopped_by": looked.stopped_by,
            "not_searched": {trouble.value: number for trouble, number in looked.unjudged.items()},
            "gone": looked.gone,
        },
        "next_after": None if is_whole else str(looked.mark),
    }


@read(router, f"{TOPIC}/messages/{{name:spot}}", response=OneMessage)
def message(request: AuthorizedRequest, topic: Path[TopicPath], spot: str) -> dict[str, Any]:
    """Show one message with the first 1 MiB of its payload and its state on each subscription.

    The position is ledger:entry, or ledger:entry:index for a message in a batch. If the topic is partitioned, the path
    must name the message's partition, such as orders-partition-0.
    """
    head, found = found_message(topic.full_name, spot)
    body = body_of(found, head, shows_all=True)
    opened, metadata = found.opened, found.metadata
    row = peeked_whole(opened) if found.message is None else peeked(opened.stored, found.message)
    states = states_of(found)
    payload = found.payload[: body.shown_bytes]
    is_cut = body.shown_bytes < body.size_bytes
    text = _text(payload, is_cut=is_cut)
    return asdict(row) | {
        "message_id": row.message_id,
        "topic": head.name,
        "event_ms": None if metadata is None else metadata.event_time_ms,
        "sequence_id": None if metadata is None else metadata.sequence_id,
        "ordering_key": None
        if metadata is None or metadata.ordering_key is None
        else base64.b64encode(metadata.ordering_key).decode(),
        "payload": text,
        "payload_base64": None if text is not None else base64.b64encode(payload).decode(),
        "payload_bytes": body.size_bytes,
        "is_cut": is_cut,
        "decoder": body.decoded.decoder,
        "decoders": body.decoded.attempts,
        "states": [_state(cursor.name, state) for cursor, state in states.rows],
        "states_are_all": states.is_all,
        "older": None if found.older is None else str(found.older),
        "newer": None if found.newer is None else str(found.newer),
    }


def _state(subscription: str, state: MessageState) -> dict[str, Any]:
    delivery = state.delivery
    return {
        "subscription": subscription,
        "state": state.word,
        "is_hole": state.is_hole,
        "consumer": None if delivery is None else delivery.consumer_name,
        "delivered_ms": None if delivery is None else delivery.delivered_ms,
        "redelivery_count": None if delivery is None else delivery.redelivery_count,
        "due_ms": state.due_ms or None,
    }


def _text(payload: bytes, *, is_cut: bool) -> str | None:
    """Decode a payload. If it is cut, its last character may be incomplete."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(payload, final=not is_cut)
    except UnicodeDecodeError:
        return None
