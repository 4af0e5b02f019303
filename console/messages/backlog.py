"""The next messages of a subscription in order, by its stored cursor."""

from __future__ import annotations

from itertools import islice

from console.queries.cursor import acked_beyond
from console.queries.log import Place, log_of
from console.queries.peek import PeekedMessage, peek
from console.queries.subscription import SubscriptionHead

__all__ = ["next_messages"]


def next_messages(head: SubscriptionHead, limit: int) -> list[PeekedMessage]:
    """Return at most `limit` unacked messages, delivered or not. Changes nothing. Four queries."""
    log = log_of(head.topic_id)
    mark_delete = log.index_of(head.mark_delete_ledger, head.mark_delete_entry)
    acked = acked_beyond(head.id, log, mark_delete)
    indexes = islice(acked.next_unacked(mark_delete + 1, log.end), limit)
    places: list[Place] = [place for index in indexes if (place := log.place_at(index)) is not None]
    unacked = {
        place: acked.ack_sets[index] for place in places if (index := log.index_of(*place)) in acked.ack_sets
    }
    return peek(log, places, unacked=unacked, limit=limit)
