"""One page of the message browser: its rows, how much was looked at, and where the next page begins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from console.messages.asked import Asked, Spot
from console.messages.lanes import Lane, lanes_of
from console.messages.peek import PeekedMessage, peeked, peeked_whole
from console.messages.scan import PAGE_BOUNDS, Bounds, Hit, Looked, Scan
from console.messages.states import MessageState, states_at
from console.queries.topic import TopicHead

__all__ = ["FoundPage", "FoundRow", "browse", "shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """One message that matches."""

    message: PeekedMessage
    topic_name: str  # of the partition, if the topic is partitioned
    partition: int  # -1 = not partitioned
    spot: Spot
    state: (
        MessageState | None
    )  # on the subscription that was named; None = none was, or the partition lacks it


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """What one page shows."""

    rows: Sequence[FoundRow]
    looked: Looked
    is_narrowed: bool  # key hashes left most entries out
    stored: int  # entries in the logs that were read
    has_states: bool  # a subscription was named


def browse(head: TopicHead, asked: Asked, bounds: Bounds = PAGE_BOUNDS) -> FoundPage:
    """Find messages. The number of queries depends on how far the search goes. Raises AskedInvalid."""
    lanes = lanes_of(head, asked)
    scan = Scan(lanes, asked, bounds)
    hits = list(scan.hits())
    states = _states(hits)
    return FoundPage(
        rows=[
            FoundRow(
                message=shown(hit),
                topic_name=hit.lane.topic_name,
                partition=hit.lane.partition,
                spot=hit.spot,
                state=state,
            )
            for hit, state in zip(hits, states, strict=True)
        ],
        looked=scan.looked,
        is_narrowed=scan.is_narrowed,
        stored=sum(_stored(lane) for lane in lanes),
        has_states=bool(asked.subscription),
    )


def shown(hit: Hit) -> PeekedMessage:
    """Return what a row shows of a hit."""
    if hit.message is None:
        return peeked_whole(hit.opened)
    return peeked(hit.opened.stored, hit.message)


def _states(hits: Sequence[Hit]) -> list[MessageState | None]:
    """Return the state of each message on the subscription that was named. Three queries."""
    cursors = {hit.lane.cursor.id: hit.lane.cursor for hit in hits if hit.lane.cursor is not None}
    known = states_at(list(cursors.values()), {hit.opened.stored.place for hit in hits})
    now_ms = time.time_ns() // 1_000_000
    return [
        None
        if (cursor := hit.lane.cursor) is None
        else known.of(
            cursor,
            hit.opened.stored.place,
            batch_index=hit.spot.batch_index,
            deliver_at_ms=hit.opened.stored.deliver_at_ms,
            now_ms=now_ms,
        )
        for hit in hits
    ]


def _stored(lane: Lane) -> int:
    return max(lane.log.end - lane.log.begin, 0)
