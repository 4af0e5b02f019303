"""Consumers, entries and sends for tests of dispatchers."""

from __future__ import annotations

from broker.core.dispatchers.base import DispatchConsumer, Dispatcher, ReadEntry
from broker.core.dispatchers.shared import SharedDispatcher
from broker.core.position import Position
from broker.core.subscription.types import SubscriptionType

EXCLUSIVE, SHARED = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED


def consumer(key: int, permits: int = 0, *, priority: int = 0, max_unacked: int = 0) -> DispatchConsumer:
    made = DispatchConsumer(key=key, name=f"c{key}", priority=priority, max_unacked=max_unacked)
    if permits:
        made.flow(permits)
    return made


def shared(*consumers: DispatchConsumer, max_unacked: int = 0) -> SharedDispatcher:
    dispatcher = SharedDispatcher(max_unacked=max_unacked)
    for each in consumers:
        dispatcher.attach(each, SHARED)
    return dispatcher


def at(*entry_ids: int) -> list[Position]:
    return [Position(1, entry_id) for entry_id in entry_ids]


def send(dispatcher: Dispatcher, *entries: ReadEntry | int, messages: int = 1) -> dict[int, list[int]]:
    """Read and assign these entries, which may be ids alone. Return the assigned entry ids by consumer key."""
    plan = dispatcher.next_read()
    assert plan is not None
    read = [e if isinstance(e, ReadEntry) else ReadEntry(Position(1, e), messages) for e in entries]
    assignments, _ = dispatcher.assign(read, plan)
    return {a.consumer.key: [e.position.entry_id for e in a.entries] for a in assignments}
