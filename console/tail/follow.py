"""Find the newest matching messages since the last look at a topic.

A look is one search backwards from the end of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from django.utils.translation import gettext as _

from console.messages.asked import Asked, AskedInvalid
from console.messages.browse import FoundRow, shown, with_states
from console.messages.lanes import Lane, lanes_of
from console.messages.scan import Bounds, Scan
from console.messages.values.columns import Column
from console.queries.topics.log import Place
from console.queries.topics.topic import TopicHead
from console.tail.since import Since

__all__ = ["FIRST_ROWS", "LOOK_BOUNDS", "MOST_FOLLOWED", "Followed", "follow"]

MOST_FOLLOWED: Final = 200  # Limit of rows in one look
FIRST_ROWS: Final = 20
LOOK_BOUNDS: Final = Bounds(entries=1000, bytes=8 * 1024 * 1024, seconds=0.3)
_EVERY_MATCH: Final = 1_000_000  # No limit in practice


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The result of one look."""

    rows: Sequence[FoundRow]  # Newest first
    matched: int  # Number of new messages that match; 0 at the first look
    skipped: int  # Number of new entries that the look did not read
    since: Since
    topic_ids: tuple[int, ...]
    has_states: bool
    columns: tuple[Column, ...]


def follow(head: TopicHead, asked: Asked, since: Since | None, bounds: Bounds = LOOK_BOUNDS) -> Followed:
    """Look once. Without `since`, return the newest messages.

    Raises AskedInvalid if `asked` or `since` does not fit the topic.
    """
    asked = Asked(
        partition=asked.partition,
        subscription=asked.subscription,
        filters=asked.filters,
        columns=asked.columns,
        limit=FIRST_ROWS if since is None else _EVERY_MATCH,
    )
    lanes = lanes_of(head, asked)
    ends = tuple(_end_of(lane) for lane in lanes)
    if since is not None:
        lanes = _newer(lanes, since)
    came = sum(last - first + 1 for lane in lanes for first, last in lane.spans)
    scan = Scan(lanes, asked, bounds)
    hits = scan.hits()
    found = [(hit.lane, hit.spot, shown(hit, asked.columns)) for hit in islice(hits, MOST_FOLLOWED)]
    matched = skipped = 0
    if since is not None:
        matched = len(found) + sum(1 for _ in hits)
        skipped = max(came - scan.looked.entries - scan.looked.gone, 0)
    return Followed(
        rows=with_states(found),
        matched=matched,
        skipped=skipped,
        since=Since(
            matched=matched + (0 if since is None else since.matched),
            skipped=skipped + (0 if since is None else since.skipped),
            places=ends,
        ),
        topic_ids=tuple(lane.topic_id for lane in lanes),
        has_states=bool(asked.subscription),
        columns=asked.columns,
    )


def _end_of(lane: Lane) -> Place:
    # If the log is empty, return a place before every possible entry.
    return lane.log.place_at(lane.log.end - 1) or (0, 0)


def _newer(lanes: Sequence[Lane], since: Since) -> tuple[Lane, ...]:
    if len(since.places) > len(lanes):
        raise AskedInvalid(
            "since", _("This topic has fewer partitions than the address says: follow it again.")
        )
    # In a partition that was added since the last look, all messages are new.
    known = (*since.places, *[(0, 0)] * (len(lanes) - len(since.places)))
    return tuple(
        replace(lane, spans=_from(lane, lane.log.index_of(*place) + 1))
        for lane, place in zip(lanes, known, strict=True)
    )


def _from(lane: Lane, index: int) -> tuple[tuple[int, int], ...]:
    first = max(index, lane.log.begin)
    return ((first, lane.log.end - 1),) if first < lane.log.end else ()
