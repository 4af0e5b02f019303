"""Publish messages as part of a Django transaction.

Each message is a row of `vela_outbox`. After the commit, the broker moves the message into its topic.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from broker.conf import broker_settings
from broker.core.errors import InvalidTopicName, MessageTooLarge, MetadataInvalid
from broker.core.hash_slots import slot_of_key
from broker.core.producers.access import OUTBOX_PRODUCER
from broker.core.topic_name import TopicName
from broker.producers.entry_size import check_entry_size
from broker.storage.queries import query
from vela.wire.entry import encode_single

__all__ = ["apublish", "publish"]

# Database connections that have published messages but have not yet notified the broker.
_unannounced: WeakKeyDictionary[BaseDatabaseWrapper, bool] = WeakKeyDictionary()


def publish(
    topic: str,
    payload: bytes | str,
    *,
    key: str | None = None,
    ordering_key: bytes | None = None,
    properties: Mapping[str, str] | None = None,
    event_time: datetime | None = None,
    deliver_at: datetime | None = None,
    deliver_after: timedelta | None = None,
    using: str = DEFAULT_DB_ALIAS,
) -> None:
    """Publish one message in the open transaction. Without a transaction, publish immediately.

    In a transaction, messages of one topic or partition keep the order of the calls. Two transactions keep their
    order only if the second begins to publish after the first has committed.

    Raises InvalidTopicName, MetadataInvalid or MessageTooLarge. These errors do not abort the transaction.

    If the topic later refuses the message, the broker tries again every minute.
    """
    name = _persistent(topic)
    data = _bytes(payload)
    limit = broker_settings().max_message_bytes
    if len(data) > limit:
        raise MessageTooLarge(
            f"the payload has {len(data)} bytes; the limit is {limit} (VELA_MAX_MESSAGE_BYTES)"
        )
    now_ms = time.time_ns() // 1_000_000
    deliver_at_ms = _due_ms(deliver_at, deliver_after, now_ms)
    if key is not None:
        _check_text(key, "key")
    if not isinstance(ordering_key, bytes | None):
        raise MetadataInvalid(f"ordering_key is {ordering_key!r}: it takes bytes")
    sticky = ordering_key if ordering_key is not None else None if key is None else key.encode()
    entry = encode_single(
        producer_name=OUTBOX_PRODUCER,
        sequence_id=0,
        publish_time_ms=now_ms,
        payload=data,
        properties=_texts(properties or {}),
        key=key,
        event_time_ms=0 if event_time is None else _ms(event_time, "event_time"),
        deliver_at_ms=deliver_at_ms or None,
        ordering_key=ordering_key,
    )
    check_entry_size(len(entry), max_message_bytes=limit)
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(
            query("outbox", "add").decode(),
            {
                "topic": name,
                "key_hash": None if sticky is None else slot_of_key(sticky),
                "deliver_at_ms": deliver_at_ms,
                "data": entry,
            },
        )
    _unannounced[connection] = True
    transaction.on_commit(partial(_announce, using), using=using, robust=True)


async def apublish(
    topic: str,
    payload: bytes | str,
    *,
    key: str | None = None,
    ordering_key: bytes | None = None,
    properties: Mapping[str, str] | None = None,
    event_time: datetime | None = None,
    deliver_at: datetime | None = None,
    deliver_after: timedelta | None = None,
    using: str = DEFAULT_DB_ALIAS,
) -> None:
    """Call `publish` from asynchronous code."""
    await sync_to_async(publish)(
        topic,
        payload,
        key=key,
        ordering_key=ordering_key,
        properties=properties,
        event_time=event_time,
        deliver_at=deliver_at,
        deliver_after=deliver_after,
        using=using,
    )


def _announce(using: str) -> None:
    """Notify the broker after the commit. A NOTIFY in the transaction would make commits wait for each other."""
    connection = connections[using]
    if _unannounced.pop(connection, False):
        with connection.cursor() as cursor:
            cursor.execute(query("outbox", "wake").decode())


def _persistent(topic: str) -> str:
    name = TopicName.parse(topic)
    if name.domain != "persistent":
        raise InvalidTopicName(f"{name}: only persistent topics can take part in a transaction")
    return name.full


def _due_ms(at: datetime | None, after: timedelta | None, now_ms: int) -> int:
    if at is not None and after is not None:
        raise MetadataInvalid("give deliver_at or deliver_after, not both")
    if after is not None:
        if not isinstance(after, timedelta):
            raise MetadataInvalid(f"deliver_after is {after!r}: it takes a datetime.timedelta")
        return max(0, now_ms + after // timedelta(milliseconds=1))
    return 0 if at is None else _ms(at, "deliver_at")


def _ms(moment: datetime, what: str) -> int:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise MetadataInvalid(
            f"{what} is {moment!r}: it takes a datetime with a time zone (django.utils.timezone)"
        )
    if moment.timestamp() < 0:
        raise MetadataInvalid(f"{what} is {moment.isoformat()}: it takes a time after 1970")
    return int(moment.timestamp() * 1000)


def _bytes(payload: bytes | str) -> bytes:
    if isinstance(payload, str):
        _check_text(payload, "payload")
        return payload.encode()
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise MetadataInvalid(f"payload is a {type(payload).__name__}: it takes bytes or text")
    return bytes(payload)


def _texts(properties: Mapping[str, str]) -> dict[str, str]:
    for name, value in properties.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise MetadataInvalid(f"properties has {name!r}: {value!r}; names and values must be strings")
        _check_text(name, "a property's name")
        _check_text(value, f"property {name!r}")
    return dict(properties)


def _check_text(value: object, what: str) -> None:
    try:
        if isinstance(value, str):
            value.encode()
            return
    except UnicodeEncodeError:
        raise MetadataInvalid(f"{what} has a lone surrogate, which UTF-8 cannot express") from None
    raise MetadataInvalid(f"{what} is {value!r}: it takes text")
