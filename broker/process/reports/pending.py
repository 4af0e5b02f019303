"""Build rows of a consumer's pending acks. Neighbouring entries of one delivery share a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.storage.cursors.cursors import PendingRow

if TYPE_CHECKING:
    from broker.subscription.consumer import Consumer
    from broker.subscription.subscription import Subscription

__all__ = ["MAX_ROWS", "pending_rows"]

MAX_ROWS = 2000  # Limit for one consumer

# Ledger id, first entry, last entry, messages, delivery time, redelivery count and deadline
_Run = tuple[int, int, int, int, int, int, int | None]


def pending_rows(subscription: Subscription, consumer: Consumer) -> list[PendingRow]:
    """Return at most MAX_ROWS rows, lowest positions first."""
    runs = _delivered_range if subscription.type.single_active else _pending_runs
    rows: list[PendingRow] = []
    for ledger_id, first, last, messages, delivered_ms, count, deadline_ms in runs(subscription, consumer):
        if len(rows) >= MAX_ROWS:
            rows[-1] = rows[-1]._replace(deadline_ms=subscription.deadlines.next_due_ms())
            break
        rows.append(
            PendingRow(
                subscription.log.owner_epoch,
                subscription.log.topic_id,
                subscription.subscription_id,
                consumer.key,
                consumer.name,
                ledger_id,
                first,
                last,
                messages,
                delivered_ms,
                count,
                deadline_ms,
            )
        )
    return rows


def _pending_runs(subscription: Subscription, consumer: Consumer) -> Iterator[_Run]:
    pending, dispatcher, deadlines = (
        consumer.dispatch.pending,
        subscription.dispatcher,
        subscription.deadlines,
    )
    run: _Run | None = None
    for position in pending:
        messages, delivered_ms = pending.get(position), pending.delivered_ms(position)
        count, deadline_ms = dispatcher.redelivery_count(position), deadlines.due_ms(position)
        if run is not None:
            ledger_id, first, last, before, *rest = run
            if (ledger_id, last + 1) == position and rest == [delivered_ms, count, deadline_ms]:
                run = (ledger_id, first, last + 1, before + messages, delivered_ms, count, deadline_ms)
                continue
            yield run
        run = (
            position.ledger_id,
            position.entry_id,
            position.entry_id,
            messages,
            delivered_ms,
            count,
            deadline_ms,
        )
    if run is not None:
        yield run


def _delivered_range(subscription: Subscription, consumer: Consumer) -> Iterator[_Run]:
    if not consumer.dispatch.unacked_messages:
        return
    ledgers = subscription.log.ledgers
    through = ledgers.previous_of(subscription.read_position)
    messages = consumer.dispatch.unacked_messages
    # When the first deadline passes, the broker redelivers all unacked messages.
    deadline_ms = subscription.deadlines.next_due_ms()
    for ledger_id, first, last in ledgers.spans(subscription.cursor.mark_delete, through):
        yield ledger_id, first, last, messages, consumer.last_delivery_ms, 0, deadline_ms
        messages = 0
