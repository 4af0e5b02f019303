"""The compactions of a topic and its partitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from console.queries.database import fetch
from console.queries.topics.log import Ends

__all__ = ["CompactionRow", "compactions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """The compaction of a topic or of one of its partitions. Numbers are None before the first run begins."""

    topic: str
    partition: int  # -1 = not a partition
    state: str  # NOT_RUN, RUNNING, SUCCESS or ERROR, of the latest run
    last_error: str
    horizon: str | None  # ledger:entry of the last entry that was compacted
    kept_messages: int | None
    kept_bytes: int | None
    removed_messages: int | None  # by the latest successful run, whose duration is the next field
    duration_ms: int | None
    backlog_messages: int | None  # published after the horizon
    backlog_bytes: int | None
    started_at: datetime | None
    succeeded_at: datetime | None
    failed_at: datetime | None
    # After a failure, the earliest time at which the policy starts the next run. None = the policy need not wait.
    retry_at: datetime | None


def compactions(topic_id: int, ends: Ends) -> list[CompactionRow]:
    """Return the compaction of a topic, or of each of its partitions by index. One query."""
    return fetch(CompactionRow, "topic", "compactions", {"topic_id": topic_id, **asdict(ends)})
