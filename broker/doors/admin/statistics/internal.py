"""Internal statistics: the ledgers of a topic and the cursors of its subscriptions."""
# ruff: noqa: N815 - the names are Pulsar's

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pydantic import BaseModel

from broker.doors.times import format_time

if TYPE_CHECKING:
    from broker.core.ledgers.ledger import LedgerInfo
    from broker.subscription.subscription import Subscription
    from broker.topics.topic import Topic

__all__ = ["InternalStats", "internal_stats"]

_RUNS_SHOWN: Final = 1000


class LedgerStats(BaseModel):
    """A ledger."""

    ledgerId: int
    entries: int
    size: int
    offloaded: bool = False
    underReplicated: bool = False


class CursorStats(BaseModel):
    """A cursor."""

    markDeletePosition: str
    readPosition: str
    waitingReadOp: bool
    pendingReadOps: int
    messagesConsumedCounter: int
    cursorLedger: int = -1
    cursorLedgerLastEntry: int = -1
    individuallyDeletedMessages: str
    lastLedgerSwitchTimestamp: str
    state: str
    active: bool
    numberOfEntriesSinceFirstNotAckedMessage: int
    totalNonContiguousDeletedMessagesRange: int
    subscriptionHavePendingRead: bool
    subscriptionHavePendingReplayRead: bool
    properties: dict[str, int] = {}


class InternalStats(BaseModel):
    """A topic's log and cursors."""

    entriesAddedCounter: int
    numberOfEntries: int
    totalSize: int
    currentLedgerEntries: int
    currentLedgerSize: int
    lastLedgerCreatedTimestamp: str | None = None
    waitingCursorsCount: int
    pendingAddEntriesCount: int
    lastConfirmedEntry: str
    state: str
    ledgers: list[LedgerStats]
    cursors: dict[str, CursorStats]
    properties: dict[str, str] = {}
    schemaLedgers: list[LedgerStats] = []
    compactedLedger: LedgerStats


def internal_stats(topic: Topic) -> InternalStats:
    """Return the internal statistics of a loaded topic."""
    infos = topic.log.ledgers.infos()
    current = topic.log.ledgers.open_ledger()
    last = infos[-1] if infos else None
    kept = topic.compacted.stored
    cursors = {quote(each.name, safe=""): _cursor(each) for each in list(topic.subscriptions.values())}
    return InternalStats(
        entriesAddedCounter=topic.log.ledgers.total_entries,
        numberOfEntries=sum(each.entries for each in infos),
        totalSize=sum(each.size_bytes for each in infos),
        currentLedgerEntries=0 if current is None else current.entries,
        currentLedgerSize=0 if current is None else current.size_bytes,
        lastLedgerCreatedTimestamp=format_time(last.opened_ms) if last and last.opened_ms else None,
        waitingCursorsCount=sum(each.waitingReadOp for each in cursors.values()),
        pendingAddEntriesCount=len(topic.log.queue),
        lastConfirmedEntry=str(topic.log.ledgers.last_position()),
        state=_state(topic),
        ledgers=[_ledger(each, topic, is_open=each == current) for each in infos],
        cursors=cursors,
        compactedLedger=LedgerStats(
            ledgerId=-1 if kept is None else kept.horizon.position.ledger_id,
            entries=-1 if kept is None else kept.kept.entries,
            size=-1 if kept is None else kept.kept.size_bytes,
        ),
    )


def _state(topic: Topic) -> str:
    if topic.is_terminated:
        return "Terminated"
    return "LedgerOpened" if topic.log.ledgers.open_ledger() is not None else "ClosedLedger"


def _ledger(info: LedgerInfo, topic: Topic, *, is_open: bool) -> LedgerStats:
    """Describe a ledger. As in Pulsar, the open ledger shows 0 entries and size 0."""
    if is_open:
        return LedgerStats(ledgerId=info.ledger_id, entries=0, size=0)
    return LedgerStats(
        ledgerId=info.ledger_id,
        entries=info.entries,
        size=info.size_bytes,
        offloaded=info.ledger_id in topic.log.files,
    )


def _cursor(each: Subscription) -> CursorStats:
    cursor, ledgers = each.cursor, each.log.ledgers
    acked = list(cursor.individually_acked(_RUNS_SHOWN))
    # Pulsar's intervals exclude their start, so subtract 1 from the first acked entry.
    intervals = ",".join(f"({ledger}:{first - 1}..{ledger}:{last}]" for ledger, first, last in acked)
    at_end = each.read_position >= ledgers.end()
    return CursorStats(
        markDeletePosition=str(cursor.mark_delete),
        readPosition=str(each.read_position),
        waitingReadOp=at_end and bool(each.consumers),
        pendingReadOps=int(each.is_reading),
        messagesConsumedCounter=cursor.totals.entries,
        individuallyDeletedMessages=f"[{intervals}]",
        lastLedgerSwitchTimestamp=format_time(0),
        state="Open" if each.is_durable else "NoLedger",
        active=bool(each.consumers),
        numberOfEntriesSinceFirstNotAckedMessage=ledgers.entries_between(
            cursor.mark_delete, ledgers.last_position()
        ),
        totalNonContiguousDeletedMessagesRange=len(acked),
        subscriptionHavePendingRead=each.is_reading,
        subscriptionHavePendingReplayRead=False,
    )
