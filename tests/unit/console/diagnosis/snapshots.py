"""Snapshots of a subscription: a healthy one, and the changes that make each fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from console.diagnosis.snapshot import (
    Consumer,
    Cursor,
    Database,
    Departure,
    Disk,
    FirstUnacked,
    KeyBlock,
    Limits,
    Processes,
    Snapshot,
    Subscription,
    Topic,
)

__all__ = ["HEALTHY", "NOW_MS", "a_consumer", "a_departure", "a_first", "a_key_block", "changed"]

NOW_MS: Final = 1_790_000_000_000


def ago_ms(seconds: float) -> int:
    """Return the time this many seconds before the snapshot."""
    return NOW_MS - int(seconds * 1000)


def a_consumer(key: int = 1, **changes: Any) -> Consumer:
    """Return a consumer that works: it has permits, and acked a second ago."""
    return replace(
        Consumer(
            key=key,
            name=f"worker-{key}",
            address="10.0.0.9:5000",
            client_version="Pulsar-CPP-v3.8.0",
            connected_ms=ago_ms(600),
            permits=990,
            unacked_messages=10,
            is_blocked=False,
            is_writable=True,
            last_flow_ms=ago_ms(1),
            last_delivery_ms=ago_ms(1),
            last_ack_ms=ago_ms(1),
            oldest_delivered_ms=ago_ms(1),
            oldest_position="7:11",
        ),
        **changes,
    )


def silent(key: int = 1, **changes: Any) -> Consumer:
    """Return a consumer that has sent nothing for a minute."""
    quiet = {
        "last_flow_ms": ago_ms(60),
        "last_delivery_ms": ago_ms(60),
        "last_ack_ms": ago_ms(60),
        "oldest_delivered_ms": ago_ms(60),
    }
    return a_consumer(key, **{**quiet, **changes})


def a_first(**changes: Any) -> FirstUnacked:
    """Return the first unacked entry, which was delivered for the first time a second ago."""
    return replace(
        FirstUnacked(
            position="7:11",
            messages=1,
            appended_ms=ago_ms(2),
            redelivery_count=0,
            consumer_key=1,
            consumer_name="worker-1",
            delivered_ms=ago_ms(1),
            broker_keeps_time=False,
        ),
        **changes,
    )


def a_departure(**changes: Any) -> Departure:
    """Return the departure of a consumer whose client closed it a minute ago."""
    return replace(
        Departure(
            name="worker-1",
            address="10.0.0.9:5000",
            client_version="Pulsar-CPP-v3.8.0",
            at_ms=ago_ms(60),
            cause="closed",
            detail="",
        ),
        **changes,
    )


def a_key_block(**changes: Any) -> KeyBlock:
    """Return a key of which forty entries wait for worker-1."""
    return replace(
        KeyBlock(slot=4711, consumer_key=1, consumer_name="worker-1", waiting_entries=40, is_draining=True),
        **changes,
    )


# A Shared subscription on orders: one consumer, ten messages in flight, a hundred ready, drained faster than it fills.
HEALTHY: Final = Snapshot(
    now_ms=NOW_MS,
    topic=Topic(
        name="persistent://public/default/orders", last_append_ms=ago_ms(1), message_rate_in=20.0, producers=1
    ),
    subscription=Subscription(
        name="billing",
        type="Shared",
        created_ms=ago_ms(86_400),
        state="watching",
        state_since_ms=ago_ms(20),
        drain_s=None,
        pause=None,
        backlog_messages=110,
        backlog_bytes=11_000,
        consumers=1,
        in_flight_messages=10,
        replay_entries=0,
        message_rate_out=40.0,
        message_rate_acked=40.0,
        is_blocked=False,
        is_rate_limited=False,
        gap="",
        read_fault="",
        active_consumer=0,
        key_block=None,
        departure=None,
    ),
    cursor=Cursor(
        unacked_entries=110,
        unread_entries=100,
        in_flight_entries=10,
        first_hole_entries=0,
        acked_behind_entries=0,
        first=a_first(),
    ),
    consumers=(a_consumer(),),
    delayed=None,
    limits=Limits(
        unacked_per_consumer=50_000,
        unacked_per_subscription=200_000,
        dispatch_rates=(),
        quota_bytes=-1,
        quota_ms=-1,
        quota_policy="producer_request_hold",
    ),
    dead_letters=None,
    slowest=None,
    oldest_segment=None,
    processes=Processes(
        broker_host="shop-1",
        broker_seen_ms=ago_ms(1),
        beat_seen_ms=ago_ms(1),
        worker_seen_ms=ago_ms(1),
        tick_ms=1000,
    ),
    database=Database(
        waiting_statements=0,
        longest_wait_s=0.0,
        waiting_query="",
        blocking_pid=0,
        blocking_program="",
        longest_transaction_s=0.1,
        transaction_pid=12,
        transaction_program="vela broker",
        transaction_state="active",
    ),
    disk=Disk(folder="/var/lib/vela", free_bytes=50_000_000_000, total_bytes=100_000_000_000),
)


def changed(base: Snapshot = HEALTHY, **changes: Any) -> Snapshot:
    """Return a snapshot with other values. `subscription__gap="x"` changes a field of a part."""
    whole: dict[str, Any] = {}
    for name, value in changes.items():
        part, _, field = name.partition("__")
        if field:
            whole[part] = replace(whole.get(part, getattr(base, part)), **{field: value})
        else:
            whole[part] = value
    return replace(base, **whole)
