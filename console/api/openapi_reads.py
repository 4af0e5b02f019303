"""The reads of `/api/v1` in its OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from console.api.openapi_parts import answer, array, operation, path, query, ref, row_schema
from console.queries.numbers import BookmarkRow, CursorRow, SubscriptionSums, TopicFacts, Totals
from console.queries.subscription import ConsumerRow, PendingRow, SubscriptionHead
from console.queries.topic import PartitionRow, ProducerRow
from console.queries.topics import ORDERS, PAGE_ROWS, TopicRow
from console.words.subscriptions import Standing

__all__ = ["SCHEMAS", "reads"]


def reads() -> dict[str, Any]:
    """Addresses and what they answer."""
    topic = [path(name) for name in ("domain", "tenant", "namespace", "local_name")]
    base = "/topics/{domain}/{tenant}/{namespace}/{local_name}"
    one = [*topic, path("subscription")]
    page = [
        query("limit", f"1 to 500, else {PAGE_ROWS}", "integer"),
        query("after", "the next_after of the page before", "string"),
    ]
    return {
        "/stats": {"get": _read("Sums over everything; whether a broker runs.", ref("Totals"))},
        "/topics": {
            "get": _read(
                "Topics, a partitioned one as one row.",
                _page("topics", "Topic"),
                query("q", "part of a name", "string"),
                query("namespace", "tenant/namespace", "string"),
                query("backlog", "true: only where something waits", "boolean"),
                query("sort", " or ".join(ORDERS), "string"),
                *page,
            )
        },
        base: {"get": _read("A topic.", ref("OneTopic"), *topic)},
        f"{base}/policies": {
            "get": _read("The policies in force on a topic.", ref("PoliciesInForce"), *topic)
        },
        "/namespaces/{tenant}/{namespace}/policies": {
            "get": _read(
                "The policies in force on what of a namespace sets none itself.",
                ref("PoliciesInForce"),
                path("tenant"),
                path("namespace"),
            )
        },
        f"{base}/stats": {
            "get": _read(
                "The numbers of a topic and of its subscriptions, summed over partitions.",
                _page("subscriptions", "SubscriptionStats", topic=ref("Topic")),
                *topic,
                *page,
            )
        },
        f"{base}/subscriptions": {
            "get": _read(
                "The cursors of a topic, of each partition its own.",
                _page("subscriptions", "Cursor"),
                *topic,
                *page,
            )
        },
        f"{base}/subscriptions/{{subscription}}": {
            "get": _read("A subscription with consumers and pending acks.", ref("OneSubscription"), *one)
        },
        f"{base}/examine": {
            "get": _read(
                "One message by its place in the topic.",
                ref("Message"),
                *topic,
                query("from", "earliest or latest", "string"),
                query("position", "1 is the first, or the last, message kept", "integer"),
            )
        },
        f"{base}/subscriptions/{{subscription}}/peek": {
            "get": _read(
                "The next messages that a subscription has not acknowledged.",
                {"type": "object", "properties": {"messages": array(ref("Message"))}},
                *one,
                query("limit", "1 to 100, else 20", "integer"),
            )
        },
        f"{base}/subscriptions/{{subscription}}/backlog": {
            "get": _read(
                "What a backlog is made of: at most 10,000 entries or 120 s of looking.",
                {"type": "object"},
                *one,
                query("entries", "look at so many", "integer"),
            )
        },
    }


def _read(summary: str, schema: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    return operation(summary, {"200": answer(summary, schema)}, parameters=list(parameters))


def _page(rows: str, schema: str, **more: Any) -> dict[str, Any]:
    properties = {**more, rows: array(ref(schema)), "next_after": {"type": ["string", "null"]}}
    return {"type": "object", "properties": properties, "required": list(properties)}


_NUMBER_OR_NULL: Final = {"type": ["integer", "null"]}
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "ledger_id": {"type": "integer"},
        "entry_id": {"type": "integer"},
        "batch_index": {"type": "integer", "description": "-1: not in a batch"},
        "batch_size": {"type": "integer"},
        "append_ms": {"type": "integer"},
        "publish_ms": {"type": "integer"},
        "deliver_at_ms": {"type": "integer", "description": "0: at once"},
        "size_bytes": {"type": "integer"},
        "key": {"type": ["string", "null"]},
        "properties": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "producer": {"type": "string"},
        "preview": {"type": "string", "description": "the first 200 characters, or hexadecimal"},
        "is_text": {"type": "boolean"},
        "trouble": {"type": "string", "description": "why it is not taken apart"},
    },
}
_POLICIES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "policies": array(
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": ["boolean", "integer", "string"]},
                    "set_on": {
                        "type": ["string", "null"],
                        "description": "topic or namespace; null: it follows the broker's settings",
                    },
                },
            }
        ),
    },
}
_TOPIC: Final = row_schema(TopicRow)
SCHEMAS: Final[dict[str, Any]] = {
    "Message": _MESSAGE,
    "PoliciesInForce": _POLICIES,
    "Topic": _TOPIC,
    "OneTopic": row_schema(
        TopicFacts,
        **_TOPIC["properties"],
        producing=array(row_schema(ProducerRow)),
        partition_topics=array(row_schema(PartitionRow)),
        bookmarks=array(row_schema(BookmarkRow, without=())),
    ),
    "Cursor": row_schema(CursorRow, oldest_unacked_ms=_NUMBER_OR_NULL),
    "SubscriptionStats": row_schema(
        SubscriptionSums,
        oldest_unacked_ms=_NUMBER_OR_NULL,
        standing=row_schema(Standing),
    ),
    "OneSubscription": row_schema(
        SubscriptionHead,
        without=(
            "id", "topic_id", "mark_delete_ledger", "mark_delete_entry", "read_ledger", "read_entry",
        ),
        mark_delete={"type": "string"},
        read_position={"type": ["string", "null"]},
        backlog_messages={"type": "integer"},
        backlog_bytes={"type": "integer"},
        oldest_unacked_ms=_NUMBER_OR_NULL,
        standing=row_schema(Standing),
        connected=array(row_schema(ConsumerRow)),
        pending=array(row_schema(PendingRow)),
    ),
    "Totals": row_schema(
        Totals,
        broker={
            "type": "object",
            "properties": {
                "is_running": {"type": "boolean"},
                "host": {"type": ["string", "null"]},
                "pid": _NUMBER_OR_NULL,
                "seen_at": {"type": ["string", "null"], "format": "date-time"},
            },
        },
        waiting_acts={"type": "integer"},
    ),
}  # fmt: skip
