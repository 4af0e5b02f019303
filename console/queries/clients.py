"""Connected consumers and producers of all topics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from console.diagnosis.rules.consumers import hoarder, no_permits, not_reading
from console.diagnosis.rules.messages import kept_unacked
from console.queries.database import containing, fetch_text, statement
from console.queries.rights import EVERYTHING, Scope

__all__ = [
    "CONSUMER_FLAGS",
    "CONSUMER_ORDERS",
    "PRODUCER_FLAGS",
    "PRODUCER_ORDERS",
    "ClientPage",
    "ClientsAsked",
    "ConsumerRow",
    "ProducerRow",
    "consumers",
    "consumers_of",
    "producers",
]

PAGE_ROWS: Final = 50
CONSUMERS_SHOWN: Final = 500
# The most serious flag comes first.
CONSUMER_FLAGS: Final = (
    "blocked",
    "not-reading",
    "ack-less",
    "silent",
    "hoarding",
    "old",
)
PRODUCER_FLAGS: Final = ("refused", "old")
_OLD_PROTOCOL: Final = 11  # The last version of Pulsar's protocol without CommandActiveConsumerChange
_LAST: Final = 2**63 - 1  # PostgreSQL's largest bigint
_NAME_CHARACTERS: Final = 200  # The database index contains only the first 200 characters of a name

Row = TypeVar("Row", "ConsumerRow", "ProducerRow")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    column: str
    type: str
    field: str
    before_all: str | float
    is_descending: bool = True

    def place(self, text: str, key: int) -> tuple[str | float, int]:
        """Return the value and key after which a page begins.

        Returns the start of the list if the key is 0 or the text cannot be parsed.
        """
        if key:
            try:
                value = text if self.type == "text" else float(text) if self.type == "float8" else int(text)
            except ValueError:
                value = float("nan")
            if isinstance(value, str) or -_LAST <= value <= _LAST:
                return value, key
        return self.before_all, 0 if self.type == "text" else _LAST

    def value_of(self, row: object) -> str:
        """Return the row's value as a text that `place` can parse."""
        value = getattr(row, self.field)
        return value[:_NAME_CHARACTERS] if isinstance(value, str) else repr(value)


def _filled_in(query: str, order: _Order, flags: Sequence[str], flag: str) -> str:
    cases = [f"CASE WHEN {_condition(name)} THEN '{name}' END" for name in flags]
    pieces = {
        "flags": f"array_remove(ARRAY[{', '.join(cases)}], NULL)",
        "wrong": _only(flag) if flag in flags else "true",
        "sorted_by": order.column,
        "type": order.type,
        "beyond": "<" if order.is_descending else ">",
        "direction": "DESC" if order.is_descending else "ASC",
    }
    return statement("clients", query).format(**pieces)


def _only(flag: str) -> str:
    narrowed = f"{statement('clients', 'may_be_hoarding')} AND " if flag == "hoarding" else ""
    return f"{narrowed}({_condition(flag)})"


def _condition(flag: str) -> str:
    return statement("clients", f"is_{flag.replace('-', '_')}")


_BY_NAME: Final = _Order(
    column=f"left(c.name, {_NAME_CHARACTERS})", type="text", field="name", before_all="", is_descending=False
)
_BY_SINCE: Final = _Order(column="c.connected_ms", type="bigint", field="connected_ms", before_all=_LAST)
CONSUMER_ORDERS: Final = {
    "name": _BY_NAME,
    "unacked": _Order(column="c.unacked_messages", type="bigint", field="unacked_messages", before_all=_LAST),
    # The list begins after the value 0, so it leaves out consumers whose value is 0.
    "oldest": _Order(
        column="c.oldest_delivered_ms",
        type="bigint",
        field="oldest_delivered_ms",
        before_all=0,
        is_descending=False,
    ),
    "since": _BY_SINCE,
}
PRODUCER_ORDERS: Final = {
    "name": _BY_NAME,
    "rate": _Order(column="c.message_rate_in", type="float8", field="message_rate_in", before_all=_LAST),
    "since": _BY_SINCE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsAsked:
    """The filters, order and page of a list. "" means no filter."""

    topic: str = ""  # A full name finds one topic and its partitions
    subscription: str = ""
    name: str = ""
    address: str = ""
    version: str = ""
    flag: str = ""  # One of CONSUMER_FLAGS or PRODUCER_FLAGS
    order: str = "name"
    after: str = ""  # `next_after` of the previous page
    after_key: int = 0  # `next_key` of the previous page; 0 means the first page
    limit: int = PAGE_ROWS

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is set."""
        return any((self.topic, self.subscription, self.name, self.address, self.version, self.flag))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """A connected consumer or reader."""

    key: int
    topic_name: str
    partition: int  # -1 means the topic is not a partition
    subscription_id: int | None  # None means the subscription is not durable
    subscription_name: str
    subscription_type: str
    name: str
    address: str
    client_version: str
    face: str
    protocol_version: int
    priority: int
    connected_ms: int
    permits: int
    unacked_messages: int
    blocked: bool  # Too many messages are unacked
    writable: bool
    messages_out: int
    bytes_out: int
    messages_acked: int
    messages_redelivered: int
    message_rate_out: float
    message_rate_acked: float
    message_rate_redelivered: float
    last_flow_ms: int  # 0 means never
    last_delivery_ms: int  # 0 means never
    last_ack_ms: int  # 0 means never
    # Delivery time of the oldest unacked message. On an Exclusive or Failover subscription, this is instead the time of
    # the latest delivery. 0 means that no message is unacked, or that the subscription is not durable.
    oldest_delivered_ms: int
    updated_ms: int
    properties: dict[str, str]
    flags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    """A connected producer."""

    key: int
    topic_id: int
    topic_name: str
    partition: int  # -1 means the topic is not a partition
    name: str
    address: str
    client_version: str
    face: str
    protocol_version: int
    connected_ms: int
    access_mode: str
    deduplicated: bool
    messages_in: int
    bytes_in: int
    message_rate_in: float
    byte_rate_in: float
    last_sequence_id: int
    last_send_ms: int  # 0 means never
    last_error: str  # Why the broker last refused a message; "" if it has refused none
    updated_ms: int
    properties: dict[str, str]
    flags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPage(Generic[Row]):
    """A page of a list, and the place where the next page begins."""

    rows: tuple[Row, ...]
    next_after: str
    next_key: int  # 0 if this is the last page


def consumers(asked: ClientsAsked, scope: Scope) -> ClientPage[ConsumerRow]:
    """Read a page of the consumers and readers in scope."""
    return _page(ConsumerRow, "consumers", CONSUMER_ORDERS[asked.order], CONSUMER_FLAGS, asked, scope)


def producers(asked: ClientsAsked, scope: Scope) -> ClientPage[ProducerRow]:
    """Read a page of the producers in scope."""
    return _page(ProducerRow, "producers", PRODUCER_ORDERS[asked.order], PRODUCER_FLAGS, asked, scope)


def consumers_of(subscriptions: Sequence[int], *, limit: int = CONSUMERS_SHOWN) -> list[ConsumerRow]:
    """Return the consumers of the subscriptions, sorted by priority and name.

    If there are more than `limit` consumers, return those whose names come first.
    """
    asked = ClientsAsked(limit=limit)
    page = _page(ConsumerRow, "consumers", _BY_NAME, CONSUMER_FLAGS, asked, EVERYTHING, list(subscriptions))
    return sorted(page.rows, key=lambda row: (row.priority, row.name, row.key))


def _page(
    row_type: type[Row],
    query: str,
    order: _Order,
    flags: Sequence[str],
    asked: ClientsAsked,
    scope: Scope,
    subscriptions: list[int] | None = None,
) -> ClientPage[Row]:
    text = _filled_in(query, order, flags, asked.flag)
    rows = fetch_text(row_type, text, _parameters(order, asked, scope, subscriptions))
    shown = rows[: asked.limit]
    more = len(rows) > asked.limit
    return ClientPage(
        rows=tuple(shown),
        next_after=order.value_of(shown[-1]) if more else "",
        next_key=shown[-1].key if more else 0,
    )


def _parameters(
    order: _Order, asked: ClientsAsked, scope: Scope, subscriptions: list[int] | None
) -> Mapping[str, Any]:
    is_whole_name = "://" in asked.topic
    after, after_key = order.place(asked.after, asked.after_key)
    now_ms = int(time.time() * 1000)
    return {
        "subscriptions": subscriptions,
        "topic": asked.topic if is_whole_name else "",
        "topic_part": "" if is_whole_name else containing(asked.topic),
        "subscription": containing(asked.subscription),
        "name": containing(asked.name),
        "address": containing(asked.address),
        "version": containing(asked.version),
        "after": after,
        "after_key": after_key,
        "limit": asked.limit + 1,
        "not_reading_before_ms": now_ms - int(not_reading.WINDOW_S * 1000),
        "ackless_before_ms": now_ms - int(kept_unacked.WINDOW_S * 1000),
        "silent_before_ms": now_ms - int(no_permits.WINDOW_S * 1000),
        "idle_before_ms": now_ms - int(hoarder.WINDOW_S * 1000),
        "hoard_messages": hoarder.LEAST_MESSAGES,
        "hoard_share": hoarder.LEAST_SHARE,
        "hoard_times": hoarder.LEAST_TIMES,
        "old_protocol": _OLD_PROTOCOL,
        **scope.of_topics,
    }
