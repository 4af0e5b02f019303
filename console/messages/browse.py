"""Find one page of the message browser."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from console.messages.asked import Asked, Spot
from console.messages.lanes import Lane, lanes_of
from console.messages.peek import PeekedMessage, peeked, peeked_whole
from console.messages.scan import PAGE_BOUNDS, Bounds, Hit, Looked, Scan
from console.messages.states import MessageState, states_at
from console.messages.values.columns import Column, cells_of, paths_in
from console.queries.topics.topic import TopicHead

__all__ = ["FoundPage", "FoundRow", "browse", "shown", "with_states"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """One hit as a row of a list."""

    message: PeekedMessage
    topic_name: str
    partition: int  # -1 if the request names a topic without partitions
    spot: Spot
    state: MessageState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """The content of one page."""

    rows: Sequence[FoundRow]
    looked: Looked
    is_narrowed: bool  # Whether the search used key hashes to skip entries
    stored: int
    has_states: bool
    columns: Sequence[Column]
    paths: Sequence[str]  # JSON paths in the first payload


def browse(head: TopicHead, asked: Asked, bounds: Bounds = PAGE_BOUNDS) -> FoundPage:
    """Find the messages of one page.

    Raises AskedInvalid if the topic lacks the partition, subscription or position, or has too many partitions.
    """
    lanes = lanes_of(head, asked)
    scan = Scan(lanes, asked, bounds)
    # Rows keep no payloads, because the payloads of 500 messages could fill up memory.
    found, paths = [], None
    for hit in scan.hits():
        if paths is None and hit.message is not None:
            paths = paths_in(hit.message.payload)
        found.append((hit.lane, hit.spot, shown(hit, asked.columns)))
    return FoundPage(
        rows=with_states(found),
        looked=scan.looked,
        is_narrowed=scan.is_narrowed,
        stored=sum(_stored(lane) for lane in lanes),
        has_states=bool(asked.subscription),
        columns=asked.columns,
        paths=paths or (),
    )


def shown(hit: Hit, columns: Sequence[Column] = ()) -> PeekedMessage:
    """Return the part of a hit that a row shows, with the chosen columns."""
    readable = hit.message or hit.opened.outer
    message = peeked_whole(hit.opened) if hit.message is None else peeked(hit.opened.stored, hit.message)
    if not columns or readable is None:
        return message
    return replace(message, cells=cells_of(columns, readable, has_payload=hit.message is not None))


def with_states(found: Sequence[tuple[Lane, Spot, PeekedMessage]]) -> list[FoundRow]:
    """Return a row for each hit, with the message's state if a subscription was chosen."""
    cursors = {lane.cursor.id: lane.cursor for lane, _, _ in found if lane.cursor is not None}
    known = states_at(list(cursors.values()), {(spot.ledger_id, spot.entry_id) for _, spot, _ in found})
    now_ms = time.time_ns() // 1_000_000
    return [
        FoundRow(
            message=message,
            topic_name=lane.topic_name,
            partition=lane.partition,
            spot=spot,
            state=None
            if lane.cursor is None
            else known.of(
                lane.cursor,
                (spot.ledger_id, spot.entry_id),
                batch_index=spot.batch_index,
                deliver_at_ms=message.deliver_at_ms,
                now_ms=now_ms,
            ),
        )
        for lane, spot, message in found
    ]


def _stored(lane: Lane) -> int:
    return max(lane.log.end - lane.log.begin, 0)
