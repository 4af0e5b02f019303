"""Find the log ranges that the message browser reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.utils.translation import gettext as _

from console.messages.asked import Asked, AskedInvalid, Mark
from console.messages.states import CursorAt, cursors_of
from console.queries.cursor import AckedBeyond, Run, acked_beyond
from console.queries.database import fetch_entries
from console.queries.topics.log import Log, entries_at, logs_of
from console.queries.topics.topic import TopicHead, partitions

__all__ = ["MOST_LANES", "Lane", "lanes_of"]

MOST_LANES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The log of a topic or partition, with the ranges to read.

    An entry's log index is the number of entries before it in the log, including trimmed entries.
    """

    topic_id: int
    topic_name: str
    partition: int  # -1 if the requested topic has no partitions
    log: Log
    spans: tuple[Run, ...]  # Ranges of log indexes, oldest first
    cursor: CursorAt | None = None
    # Maps the log index of a partly acked batch to the bitset of its unacked messages.
    # If None, the search also reads acked messages.
    unacked: Mapping[int, int] | None = None
    is_cut: bool = False  # True if the cursor has more acks than one query reads


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topic:
    id: int
    name: str
    partition: int = field(default=-1)


def lanes_of(head: TopicHead, asked: Asked) -> tuple[Lane, ...]:
    """Return the ranges to read in each log.

    Raises AskedInvalid if the partition, subscription or position does not exist, or if there are too many partitions.
    """
    topics = _topics(head, asked.partition)
    logs = logs_of([topic.id for topic in topics])
    cursors = _cursors(topics, asked.subscription)
    lanes = [
        Lane(
            topic_id=topic.id,
            topic_name=topic.name,
            partition=topic.partition,
            log=logs[topic.id],
            spans=_whole(logs[topic.id]),
            cursor=cursors.get(topic.id),
        )
        for topic in topics
    ]
    if asked.start == "id" and asked.spot is not None:
        start = _mark_of_start(lanes, asked)
        lanes = _beyond(lanes, start, is_backward=asked.is_backward, is_inclusive=True)
    elif asked.start == "time" and asked.time_ms is not None:
        # A backward search includes the entries stored at `time_ms`.
        firsts = _first_after(lanes, asked.time_ms + asked.is_backward)
        lanes = [
            _cut_at(lane, at, is_backward=asked.is_backward) for lane, at in zip(lanes, firsts, strict=True)
        ]
    elif asked.start in ("next", "holes"):
        lanes = [
            _unacked(lane, only_holes=asked.start == "holes") for lane in lanes if lane.cursor is not None
        ]
    if asked.after is not None:
        if not any(lane.log.has_ledger(asked.after.spot.ledger_id) for lane in lanes):
            raise AskedInvalid("after", _("The place to continue from is no longer stored: start again."))
        lanes = _beyond(lanes, asked.after, is_backward=asked.is_backward, is_inclusive=False)
    return tuple(lanes)


def _whole(log: Log) -> tuple[Run, ...]:
    return ((log.begin, log.end - 1),) if log.begin < log.end else ()


def _topics(head: TopicHead, partition: int | None) -> list[_Topic]:
    if not head.partitions:
        if partition is not None:
            raise AskedInvalid("partition", _("This topic is not partitioned: leave out the partition."))
        return [_Topic(id=head.id, name=head.name)]
    rows = [row for row in partitions(head.id) if partition in (None, row.partition)]
    if not rows:
        raise AskedInvalid(
            "partition", _("This topic has the partitions 0 to {last}.").format(last=head.partitions - 1)
        )
    if len(rows) > MOST_LANES:
        raise AskedInvalid(
            "partition",
            _("This topic has {partitions} partitions; at most {most} can be merged: choose one.").format(
                partitions=len(rows), most=MOST_LANES
            ),
        )
    return [_Topic(id=row.id, name=row.name, partition=row.partition) for row in rows]


def _cursors(topics: Sequence[_Topic], subscription: str) -> dict[int, CursorAt]:
    if not subscription:
        return {}
    found = cursors_of([topic.id for topic in topics], subscription)
    if not found:
        raise AskedInvalid("sub", _("This topic has no subscription with this name."))
    return {cursor.topic_id: cursor for cursor in found}


def _mark_of_start(lanes: Sequence[Lane], asked: Asked) -> Mark:
    assert asked.spot is not None
    spot = asked.spot
    own = next((lane for lane in lanes if lane.log.has_ledger(spot.ledger_id)), None)
    if own is None:
        raise AskedInvalid(
            "at",
            _("Ledger {ledger_id} is not stored here: it was trimmed, or belongs to another topic.").format(
                ledger_id=spot.ledger_id
            ),
        )
    if len(lanes) == 1:
        return Mark(0, spot)
    place = (spot.ledger_id, spot.entry_id)
    stored = entries_at(own.log, [place]).get(place)
    if stored is None:
        raise AskedInvalid(
            "at", _("{spot} is not stored, so its time is unknown: choose its partition.").format(spot=spot)
        )
    return Mark(stored.append_ms, spot)


def _beyond(lanes: Sequence[Lane], mark: Mark, *, is_backward: bool, is_inclusive: bool) -> list[Lane]:
    """Cut the lanes so that the search continues at a mark.

    In a lane without the mark's ledger, the search continues at the mark's append time, and includes the entries with
    exactly this time. `Scan` skips the entries that the previous page read.
    """
    spot = mark.spot
    others = [lane for lane in lanes if not lane.log.has_ledger(spot.ledger_id)]
    firsts = dict(
        zip(
            (lane.topic_id for lane in others),
            _first_after(others, mark.append_ms + is_backward),
            strict=True,
        )
    )
    found = []
    for lane in lanes:
        if lane.topic_id in firsts:
            found.append(_cut_at(lane, firsts[lane.topic_id], is_backward=is_backward))
            continue
        index = lane.log.index_of(spot.ledger_id, spot.entry_id)
        keeps_entry = is_inclusive or spot.batch_index >= 0
        is_stored = lane.log.place_at(index) == (spot.ledger_id, spot.entry_id)
        # Add 1 to keep the entry in a backward search, or to skip the entry in a forward search.
        at = index + (is_stored and is_backward == keeps_entry)
        found.append(_cut_at(lane, at, is_backward=is_backward))
    return found


def _cut_at(lane: Lane, index: int, *, is_backward: bool) -> Lane:
    low, high = (0, index - 1) if is_backward else (index, lane.log.end)
    spans = tuple(
        (max(first, low), min(last, high)) for first, last in lane.spans if first <= high and last >= low
    )
    return replace(lane, spans=spans)


def _first_after(lanes: Sequence[Lane], time_ms: int) -> list[int]:
    """For each lane, return the index of the first entry stored at or after `time_ms`, or the log's end."""
    asked = {}
    for lane in lanes:
        for ledger in lane.log.ledgers:
            if ledger.entries and ledger.store is not None and ledger.last_append_ms >= time_ms:
                asked[lane.topic_id] = ledger
                break
    stores = {store for ledger in asked.values() if (store := ledger.store) is not None}
    parameters = {
        "ledgers": [ledger.ledger_id for ledger in asked.values()],
        "times_ms": [time_ms] * len(asked),
    }
    entries = {
        row.ledger_id: row.entry_id for row in fetch_entries(_First, "first_after", stores, parameters)
    }
    found = []
    for lane in lanes:
        first = asked.get(lane.topic_id)
        if first is None:
            found.append(lane.log.end)
        else:
            found.append(first.entries_before + entries.get(first.ledger_id, first.entries))
    return found


def _unacked(lane: Lane, *, only_holes: bool) -> Lane:
    assert lane.cursor is not None
    mark_delete = lane.log.index_of(lane.cursor.mark_delete_ledger, lane.cursor.mark_delete_entry)
    acked = acked_beyond(lane.cursor.id, lane.log, mark_delete)
    end = lane.log.end
    if only_holes or not acked.complete:  # If the list of acks is incomplete, later acks are unknown
        end = acked.runs[-1][0] if acked.runs else mark_delete + 1
    return replace(
        lane,
        spans=tuple(_gaps(acked, mark_delete + 1, end)),
        unacked=acked.ack_sets,
        is_cut=not acked.complete,
    )


def _gaps(acked: AckedBeyond, index: int, end: int) -> Iterator[Run]:
    for first, last in acked.runs:
        if index < min(first, end):
            yield index, min(first, end) - 1
        index = max(index, last + 1)
    if index < end:
        yield index, end - 1
